import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.function.Supplier;
import org.eclipse.paho.mqttv5.common.MqttException;
import org.eclipse.paho.mqttv5.common.packet.MqttPingReq;

/**
 * A PINGREQ with a body: the length of the properties, which is 0, and a report as JSON up to the end of the packet. Without a
 * report it is an ordinary PINGREQ of two bytes.
 *
 * <p>Paho keeps the PINGREQ that it sent last and may send the same object again, so the body is made when the packet is
 * written: Paho asks for the header first, and writes header and payload after that.
 */
final class LoadPingReq extends MqttPingReq {
    private final Supplier<String> report;
    private byte[] body = {};

    /** @param report asked once for each time the packet is written; {@code null} stands for no report */
    LoadPingReq(Supplier<String> report) {
        this.report = report;
    }

    @Override
    public byte[] getHeader() throws MqttException {
        body = body(report.get());
        return super.getHeader();
    }

    @Override
    public byte[] getPayload() {
        return body;
    }

    private static byte[] body(String json) {
        if (json == null) {
            return new byte[0];
        }
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        body.write(0);
        body.writeBytes(json.getBytes(StandardCharsets.UTF_8));
        return body.toByteArray();
    }
}
