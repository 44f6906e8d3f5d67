import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

/** JeroMQ as a puppet (see ../README.md): a PUB and a SUB socket, without libzmq. */
public final class JeromqPeer {
    private static final long PATIENCE_S = 15;
    private static final int POLL_MS = 20;
    private static final ZContext CONTEXT = new ZContext();
    private static final Map<String, JeromqPeer> PEERS = new ConcurrentHashMap<>();

    private final String name;
    /** Sockets belong to one thread, which also looks for messages. */
    private final ScheduledExecutorService thread = Executors.newSingleThreadScheduledExecutor();
    private ZMQ.Socket pub;
    private ZMQ.Socket sub;
    private int marks;

    private JeromqPeer(String name) {
        this.name = name;
    }

    public static void main(String[] arguments) throws Exception {
        var threads = Executors.newCachedThreadPool();
        HivemqPeer.write(HivemqPeer.fields("event", "ready"));
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = input.readLine()) != null; ) {
            var command = HivemqPeer.Json.object(line);
            threads.submit(() -> obey(command));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void obey(Map<String, Object> command) {
        var reply = HivemqPeer.fields("reply", command.get("id"));
        try {
            var peer = PEERS.computeIfAbsent((String) command.get("peer"), JeromqPeer::new);
            Callable<Void> work = () -> peer.carryOut(command);
            peer.thread.submit(work).get(PATIENCE_S, TimeUnit.SECONDS);
        } catch (Throwable error) {
            error.printStackTrace();
            reply.put("error", error.toString());
        }
        HivemqPeer.write(reply);
    }

    private Void carryOut(Map<String, Object> command) {
        switch ((String) command.get("do")) {
            case "connect" -> {
                var address = "tcp://" + command.get("host") + ":" + ((Number) command.get("port")).intValue();
                pub = CONTEXT.createSocket(SocketType.PUB);
                sub = CONTEXT.createSocket(SocketType.SUB);
                for (var socket : List.of(pub, sub)) {
                    socket.setLinger(0);
                    socket.connect(address);
                }
                meet();
                thread.scheduleWithFixedDelay(this::listen, 0, 2, TimeUnit.MILLISECONDS);
            }
            case "subscribe" -> {
                sub.subscribe(bytes(command.get("prefix")));
                meet();
            }
            case "send" -> send(((List<?>) command.get("frames")).stream().map(JeromqPeer::bytes).toList());
            case "disconnect" -> {
                thread.shutdownNow();
                List.of(pub, sub).forEach(CONTEXT::destroySocket);
            }
            default -> throw new IllegalArgumentException(command.toString());
        }
        return null;
    }

    private void send(List<byte[]> frames) {
        for (int at = 0; at < frames.size(); at++) {
            pub.send(frames.get(at), at + 1 < frames.size() ? ZMQ.SNDMORE : 0);
        }
    }

    private void listen() {
        sub.setReceiveTimeOut(0);
        for (List<byte[]> frames; (frames = receive()) != null; ) {
            tell(frames);
        }
    }

    /** A message, if one comes in time. */
    private List<byte[]> receive() {
        var frame = sub.recv();
        if (frame == null) {
            return null;
        }
        var frames = new ArrayList<>(List.of(frame));
        while (sub.hasReceiveMore()) {
            frames.add(sub.recv());
        }
        return frames;
    }

    private void tell(List<byte[]> frames) {
        if (!new String(frames.get(0), StandardCharsets.ISO_8859_1).startsWith("$mark/")) {
            var texts = frames.stream().map(HexFormat.of()::formatHex).toList();
            HivemqPeer.write(HivemqPeer.fields("event", "message", "peer", name, "frames", texts));
        }
    }

    /** Waits until what PUB sends reaches SUB: nothing else says that subscriptions are in force. */
    private void meet() {
        var mark = ("$mark/" + name + "/" + ++marks + "/").getBytes(StandardCharsets.UTF_8);
        sub.subscribe(mark);
        sub.setReceiveTimeOut(POLL_MS);
        for (boolean isThere = false; !isThere; ) {
            send(List.of(mark, new byte[0]));
            var frames = receive();
            if (frames != null) {
                isThere = Arrays.equals(frames.get(0), mark);
                tell(frames);
            }
        }
        sub.unsubscribe(mark);
    }

    private static byte[] bytes(Object hex) {
        return HexFormat.of().parseHex((String) hex);
    }
}
