import java.util.List;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.eclipse.paho.mqttv5.client.MqttPingSender;
import org.eclipse.paho.mqttv5.client.MqttToken;
import org.eclipse.paho.mqttv5.client.TimerPingSender;
import org.eclipse.paho.mqttv5.client.internal.ClientComms;
import org.eclipse.paho.mqttv5.common.MqttException;
import org.eclipse.paho.mqttv5.common.packet.MqttProperties;
import org.eclipse.paho.mqttv5.common.packet.UserProperty;

/**
 * Paho's ping sender, and beside it a clock of our own that sends a PINGREQ with a report at a fixed interval, whether the link
 * is quiet or not.
 *
 * <p>Keep alive stays with the stock sender: it finds a broker that does not answer, our PINGREQs among those it watches. What
 * MQTT does not know is sent only between {@link #welcome}, if the broker announced that it understands it, and the end of that
 * connection; to any other broker this is the stock sender and no more.
 */
final class LoadPingSender implements MqttPingSender {
    private static final String ANNOUNCEMENT = "x-lb-report";

    private final LoadMeter meter;
    private final long intervalMillis;
    private final ScheduledExecutorService clock;
    private final MqttPingSender stock;
    private final LoadPingReq ping;
    private volatile boolean announced;
    private ClientComms comms;
    private ScheduledFuture<?> reporting;

    /**
     * @param intervalMillis time between two reports; keep alive, if it is shorter, takes its place
     * @param clock the client must get the same one
     */
    LoadPingSender(LoadMeter meter, long intervalMillis, ScheduledExecutorService clock) {
        this.meter = meter;
        this.intervalMillis = intervalMillis;
        this.clock = clock;
        this.stock = new TimerPingSender(clock);
        this.ping = new LoadPingReq(() -> announced ? meter.report() : null);
    }

    /** CONNACK has come, with these properties. From now on reports are sent if the broker knows them. */
    synchronized boolean welcome(MqttProperties connack) {
        List<UserProperty> said = connack == null ? List.of() : connack.getUserProperties();
        announced = said.stream().anyMatch(p -> ANNOUNCEMENT.equals(p.getKey()) && "1".equals(p.getValue()));
        if (announced) {
            long keepAlive = comms.getKeepAlive();
            long interval = keepAlive > 0 ? Math.min(intervalMillis, keepAlive) : intervalMillis;
            halt();
            reporting = clock.scheduleAtFixedRate(this::send, interval, interval, TimeUnit.MILLISECONDS);
        }
        return announced;
    }

    private void send() {
        if (!announced || !comms.isConnected()) {
            return;
        }
        try {
            comms.sendNoWait(ping, new MqttToken(comms.getClient().getClientId()));
        } catch (MqttException lost) {
            // The connection has just ended, and Paho tells the application so.
        }
    }

    private void halt() {
        if (reporting != null) {
            reporting.cancel(false);
            reporting = null;
        }
    }

    @Override
    public void init(ClientComms comms) {
        this.comms = comms;
        stock.init(comms);
    }

    @Override
    public void start() {
        stock.start();
    }

    @Override
    public synchronized void stop() {
        announced = false;
        halt();
        stock.stop();
    }

    @Override
    public void schedule(long delayMillis) {
        stock.schedule(delayMillis);
    }
}
