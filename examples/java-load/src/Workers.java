import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.atomic.AtomicLong;
import org.eclipse.paho.mqttv5.client.IMqttToken;
import org.eclipse.paho.mqttv5.client.MqttAsyncClient;
import org.eclipse.paho.mqttv5.client.MqttCallback;
import org.eclipse.paho.mqttv5.client.MqttConnectionOptions;
import org.eclipse.paho.mqttv5.client.MqttDisconnectResponse;
import org.eclipse.paho.mqttv5.client.persist.MemoryPersistence;
import org.eclipse.paho.mqttv5.common.MqttException;
import org.eclipse.paho.mqttv5.common.MqttMessage;
import org.eclipse.paho.mqttv5.common.packet.MqttProperties;

/**
 * Workers of one group, a connection each, that need so many milliseconds for a message.
 *
 * <p>{@code java Workers tcp://127.0.0.1:1883 '$share/workers/jobs' REPORT_MS SERVICE_MS...} works until its standard input
 * ends, and then prints a line for each worker. For each line that it reads until then it prints how many messages the
 * workers have received together.
 */
final class Workers {
    private static final int KEEP_ALIVE_SECONDS = 5;

    public static void main(String[] args) throws Exception {
        if (args.length < 4) {
            System.err.println("usage: java Workers URL FILTER REPORT_MS SERVICE_MS...");
            System.exit(2);
        }
        List<Worker> workers = new ArrayList<>();
        for (int at = 3; at < args.length; at++) {
            workers.add(new Worker(args[0], args[1], Long.parseLong(args[2]), Long.parseLong(args[at]), at - 2));
        }
        System.out.println("ready");
        for (int read = System.in.read(); read >= 0; read = System.in.read()) {
            if (read == '\n') {
                System.out.println(workers.stream().mapToLong(worker -> worker.received.get()).sum());
            }
        }
        for (Worker worker : workers) {
            System.out.println(worker.leave());
        }
        System.exit(0);
    }

    private static final class Worker implements MqttCallback {
        private final long serviceMillis;
        private final LoadMeter meter = new LoadMeter();
        private final BlockingQueue<MqttMessage> queue = new LinkedBlockingQueue<>();
        private final AtomicLong received = new AtomicLong();
        private final AtomicLong processed = new AtomicLong();
        private final MqttAsyncClient client;
        private final boolean announced;
        private volatile boolean lost;

        Worker(String url, String filter, long reportMillis, long serviceMillis, int number) throws MqttException {
            this.serviceMillis = serviceMillis;
            ScheduledExecutorService clock = Executors.newScheduledThreadPool(10);
            LoadPingSender pings = new LoadPingSender(meter, reportMillis, clock);
            client = new MqttAsyncClient(url, "java-worker-" + number, new MemoryPersistence(), pings, clock);
            client.setCallback(this);
            MqttConnectionOptions options = new MqttConnectionOptions();
            options.setKeepAliveInterval(KEEP_ALIVE_SECONDS);
            IMqttToken connected = client.connect(options);
            connected.waitForCompletion();
            announced = pings.welcome(connected.getResponseProperties());
            Thread hand = new Thread(this::work, "hand-" + number);
            hand.setDaemon(true);
            hand.start();
            client.subscribe(filter, 0).waitForCompletion();
        }

        /** Paho's thread: it counts and hands over, so that what waits is here and not in Paho or in the socket. */
        @Override
        public void messageArrived(String topic, MqttMessage message) {
            received.incrementAndGet();
            meter.arrived();
            queue.add(message);
        }

        private void work() {
            try {
                while (true) {
                    queue.take();
                    meter.begun();
                    long begin = System.nanoTime();
                    Thread.sleep(serviceMillis);
                    meter.finished(System.nanoTime() - begin);
                    processed.incrementAndGet();
                }
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }

        String leave() throws MqttException {
            String line = "service " + serviceMillis + " received " + received + " processed " + processed + " reports "
                    + meter.reports() + (announced ? " announced" : " unannounced") + (lost ? " lost" : "");
            if (!lost) {
                client.disconnect().waitForCompletion();
            }
            return line;
        }

        @Override
        public void disconnected(MqttDisconnectResponse response) {
            lost = true;
            System.err.println("the broker or the network ended the connection: " + response);
        }

        @Override
        public void mqttErrorOccurred(MqttException error) {
            System.err.println("Paho: " + error);
        }

        @Override
        public void deliveryComplete(IMqttToken token) {}

        @Override
        public void connectComplete(boolean reconnect, String url) {}

        @Override
        public void authPacketArrived(int reasonCode, MqttProperties properties) {}
    }
}
