import com.hivemq.client.mqtt.MqttClient;
import com.hivemq.client.mqtt.MqttClientSslConfig;
import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt3.Mqtt3AsyncClient;
import com.hivemq.client.mqtt.mqtt3.message.publish.Mqtt3Publish;
import com.hivemq.client.mqtt.mqtt3.message.subscribe.Mqtt3Subscription;
import com.hivemq.client.mqtt.mqtt5.Mqtt5AsyncClient;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserProperties;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserPropertiesBuilder;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserProperty;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5DisconnectException;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PayloadFormatIndicator;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5Publish;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PublishResult;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5WillPublish;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.Mqtt5RetainHandling;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.Mqtt5Subscription;
import com.hivemq.client.mqtt.mqtt5.message.unsubscribe.Mqtt5Unsubscribe;
import com.hivemq.client.mqtt.lifecycle.MqttClientDisconnectedContext;

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import javax.net.ssl.TrustManagerFactory;

/** The HiveMQ client as a puppet (see ../README.md): MQTT 3.1.1 and 5 over TCP and TLS. */
public final class HivemqPeer {
    private static final long PATIENCE_S = 15;
    private static final Map<String, Peer> PEERS = new ConcurrentHashMap<>();

    /** What both versions of the library can do, with their futures. */
    private interface Peer {
        CompletionStage<Map<String, Object>> connect(Map<String, Object> command) throws Exception;

        CompletionStage<Map<String, Object>> subscribe(Map<String, Object> command);

        CompletionStage<Map<String, Object>> unsubscribe(Map<String, Object> command);

        CompletionStage<Map<String, Object>> publish(Map<String, Object> command);

        CompletionStage<Map<String, Object>> disconnect();
    }

    public static void main(String[] arguments) throws Exception {
        var threads = Executors.newCachedThreadPool();
        write(fields("event", "ready"));
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = input.readLine()) != null; ) {
            Map<String, Object> command = Json.object(line);
            threads.submit(() -> obey(command));
        }
        System.exit(0);
    }

    private static void obey(Map<String, Object> command) {
        var reply = fields("reply", command.get("id"));
        try {
            var name = text(command, "peer");
            var verb = text(command, "do");
            if (verb.equals("connect")) {
                PEERS.put(name, number(command, "version") == 5 ? new PeerV5(name) : new PeerV3(name));
            }
            var peer = PEERS.get(name);
            var answer = switch (verb) {
                case "connect" -> peer.connect(command);
                case "subscribe" -> peer.subscribe(command);
                case "unsubscribe" -> peer.unsubscribe(command);
                case "publish" -> peer.publish(command);
                case "disconnect" -> peer.disconnect();
                default -> throw new IllegalArgumentException(verb);
            };
            reply.putAll(answer.toCompletableFuture().get(PATIENCE_S, TimeUnit.SECONDS));
        } catch (Throwable error) {
            error.printStackTrace();
            reply.put("error", error.toString());
        }
        write(reply);
    }

    private static final class PeerV5 implements Peer {
        private final String name;
        private Mqtt5AsyncClient client;

        PeerV5(String name) {
            this.name = name;
        }

        @Override
        public CompletionStage<Map<String, Object>> connect(Map<String, Object> command) throws Exception {
            var builder = MqttClient.builder().useMqttVersion5()
                    .identifier(text(command, "client_id"))
                    .serverHost(text(command, "host"))
                    .serverPort(number(command, "port"))
                    .addDisconnectedListener(context -> closed(name, context));
            if (text(command, "transport").equals("tls")) {
                builder = builder.sslConfig(trusting(text(command, "ca")));
            }
            if (command.containsKey("will")) {
                builder = builder.willPublish((Mqtt5WillPublish) will(object(command, "will")));
            }
            client = builder.buildAsync();
            client.publishes(MqttGlobalPublishFilter.ALL, message -> write(event(name, message)));
            var connect = client.connectWith().cleanStart((Boolean) command.get("clean")).keepAlive(30);
            if (command.containsKey("expiry")) {
                connect = connect.sessionExpiryInterval(number(command, "expiry"));
            }
            if (command.containsKey("topic_alias_maximum")) {
                connect = connect.restrictions().topicAliasMaximum(number(command, "topic_alias_maximum"))
                        .applyRestrictions();
            }
            return connect.send().thenApply(connack -> fields(
                    "session_present", connack.isSessionPresent(), "reason", connack.getReasonCode().getCode()));
        }

        @Override
        public CompletionStage<Map<String, Object>> subscribe(Map<String, Object> command) {
            var subscriptions = objects(command, "filters").stream().map(f -> Mqtt5Subscription.builder()
                    .topicFilter(text(f, "filter"))
                    .qos(qos(f))
                    .noLocal(Boolean.TRUE.equals(f.get("no_local")))
                    .retainAsPublished(Boolean.TRUE.equals(f.get("retain_as_published")))
                    .retainHandling(Mqtt5RetainHandling.fromCode(number(f, "retain_handling", 0)))
                    .build()).toList();
            return client.subscribeWith().addSubscriptions(subscriptions).send().thenApply(suback -> fields(
                    "reasons", suback.getReasonCodes().stream().map(code -> code.getCode()).toList()));
        }

        @Override
        public CompletionStage<Map<String, Object>> unsubscribe(Map<String, Object> command) {
            var filters = Mqtt5Unsubscribe.builder();
            var texts = (List<?>) command.get("filters");
            var complete = filters.topicFilter((String) texts.get(0));
            for (Object filter : texts.subList(1, texts.size())) {
                complete = complete.addTopicFilter((String) filter);
            }
            return client.unsubscribe(complete.build()).thenApply(unsuback -> fields(
                    "reasons", unsuback.getReasonCodes().stream().map(code -> code.getCode()).toList()));
        }

        @Override
        public CompletionStage<Map<String, Object>> publish(Map<String, Object> command) {
            return client.publish(message(command)).thenApply(result -> fields("reason", reason(result)));
        }

        @Override
        public CompletionStage<Map<String, Object>> disconnect() {
            return client.disconnect().thenApply(nothing -> fields());
        }

        private static int reason(Mqtt5PublishResult result) {
            if (result instanceof Mqtt5PublishResult.Mqtt5Qos1Result acknowledged) {
                return acknowledged.getPubAck().getReasonCode().getCode();
            }
            if (result instanceof Mqtt5PublishResult.Mqtt5Qos2Result received) {
                return received.getPubRec().getReasonCode().getCode();
            }
            return 0;
        }

        private static Mqtt5Publish will(Map<String, Object> sent) {
            return message(sent).asWill();
        }

        private static Mqtt5Publish message(Map<String, Object> sent) {
            var builder = Mqtt5Publish.builder().topic(text(sent, "topic"))
                    .payload(HexFormat.of().parseHex(text(sent, "payload")))
                    .qos(qos(sent))
                    .retain((Boolean) sent.get("retain"));
            var wanted = object(sent, "properties");
            if (wanted.containsKey("content_type")) {
                builder = builder.contentType(text(wanted, "content_type"));
            }
            if (wanted.containsKey("response_topic")) {
                builder = builder.responseTopic(text(wanted, "response_topic"));
            }
            if (wanted.containsKey("correlation")) {
                builder = builder.correlationData(HexFormat.of().parseHex(text(wanted, "correlation")));
            }
            if (wanted.containsKey("expiry")) {
                builder = builder.messageExpiryInterval(number(wanted, "expiry"));
            }
            if (wanted.containsKey("format")) {
                builder = builder.payloadFormatIndicator(
                        Mqtt5PayloadFormatIndicator.fromCode(number(wanted, "format")));
            }
            if (wanted.containsKey("user")) {
                Mqtt5UserPropertiesBuilder user = Mqtt5UserProperties.builder();
                for (Object pair : (List<?>) wanted.get("user")) {
                    user = user.add((String) ((List<?>) pair).get(0), (String) ((List<?>) pair).get(1));
                }
                builder = builder.userProperties(user.build());
            }
            return builder.build();
        }

        private static Map<String, Object> event(String name, Mqtt5Publish message) {
            var properties = fields();
            var user = new ArrayList<List<String>>();
            for (Mqtt5UserProperty property : message.getUserProperties().asList()) {
                user.add(List.of(property.getName().toString(), property.getValue().toString()));
            }
            if (!user.isEmpty()) {
                properties.put("user", user);
            }
            message.getContentType().ifPresent(text -> properties.put("content_type", text.toString()));
            message.getResponseTopic().ifPresent(text -> properties.put("response_topic", text.toString()));
            message.getCorrelationData().ifPresent(data -> properties.put("correlation", hex(data)));
            message.getMessageExpiryInterval().ifPresent(seconds -> properties.put("expiry", seconds));
            message.getPayloadFormatIndicator().ifPresent(format -> properties.put("format", format.getCode()));
            return fields("event", "message", "peer", name, "topic", message.getTopic().toString(),
                    "payload", HexFormat.of().formatHex(message.getPayloadAsBytes()),
                    "qos", message.getQos().getCode(), "retain", message.isRetain(), "properties", properties);
        }
    }

    private static final class PeerV3 implements Peer {
        private final String name;
        private Mqtt3AsyncClient client;

        PeerV3(String name) {
            this.name = name;
        }

        @Override
        public CompletionStage<Map<String, Object>> connect(Map<String, Object> command) throws Exception {
            var builder = MqttClient.builder().useMqttVersion3()
                    .identifier(text(command, "client_id"))
                    .serverHost(text(command, "host"))
                    .serverPort(number(command, "port"))
                    .addDisconnectedListener(context -> closed(name, context));
            if (text(command, "transport").equals("tls")) {
                builder = builder.sslConfig(trusting(text(command, "ca")));
            }
            if (command.containsKey("will")) {
                builder = builder.willPublish(message(object(command, "will")));
            }
            client = builder.buildAsync();
            client.publishes(MqttGlobalPublishFilter.ALL, message -> write(event(name, message)));
            return client.connectWith().cleanSession((Boolean) command.get("clean")).keepAlive(30).send()
                    .thenApply(connack -> fields("session_present", connack.isSessionPresent(),
                            "reason", connack.getReturnCode().getCode()));
        }

        @Override
        public CompletionStage<Map<String, Object>> subscribe(Map<String, Object> command) {
            var subscriptions = objects(command, "filters").stream().map(f -> Mqtt3Subscription.builder()
                    .topicFilter(text(f, "filter")).qos(qos(f)).build()).toList();
            return client.subscribeWith().addSubscriptions(subscriptions).send().thenApply(suback -> fields(
                    "reasons", suback.getReturnCodes().stream().map(code -> code.getCode()).toList()));
        }

        @Override
        public CompletionStage<Map<String, Object>> unsubscribe(Map<String, Object> command) {
            CompletableFuture<?> all = CompletableFuture.completedFuture(null);
            for (Object filter : (List<?>) command.get("filters")) {
                all = all.thenCombine(client.unsubscribeWith().topicFilter((String) filter).send(), (a, b) -> null);
            }
            return all.thenApply(nothing -> fields("reasons", List.of()));
        }

        @Override
        public CompletionStage<Map<String, Object>> publish(Map<String, Object> command) {
            return client.publish(message(command)).thenApply(sent -> fields("reason", 0));
        }

        @Override
        public CompletionStage<Map<String, Object>> disconnect() {
            return client.disconnect().thenApply(nothing -> fields());
        }

        private static Mqtt3Publish message(Map<String, Object> sent) {
            return Mqtt3Publish.builder().topic(text(sent, "topic"))
                    .payload(HexFormat.of().parseHex(text(sent, "payload")))
                    .qos(qos(sent))
                    .retain((Boolean) sent.get("retain"))
                    .build();
        }

        private static Map<String, Object> event(String name, Mqtt3Publish message) {
            return fields("event", "message", "peer", name, "topic", message.getTopic().toString(),
                    "payload", HexFormat.of().formatHex(message.getPayloadAsBytes()),
                    "qos", message.getQos().getCode(), "retain", message.isRetain(), "properties", fields());
        }
    }

    private static void closed(String name, MqttClientDisconnectedContext context) {
        Integer reason = null;
        if (context.getCause() instanceof Mqtt5DisconnectException disconnect) {
            reason = disconnect.getMqttMessage().getReasonCode().getCode();
        }
        write(fields("event", "closed", "peer", name, "reason", reason));
    }

    /** TLS that trusts one authority and checks the server's address against its certificate. */
    private static MqttClientSslConfig trusting(String file) throws Exception {
        var store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (var stream = new FileInputStream(file)) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(stream));
        }
        var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        return MqttClientSslConfig.builder().trustManagerFactory(managers).build();
    }

    private static MqttQos qos(Map<String, Object> object) {
        return MqttQos.fromCode(number(object, "qos"));
    }

    private static String hex(ByteBuffer data) {
        var bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static String text(Map<String, Object> object, String key) {
        return (String) object.get(key);
    }

    private static int number(Map<String, Object> object, String key) {
        return ((Number) object.get(key)).intValue();
    }

    private static int number(Map<String, Object> object, String key, int absent) {
        return object.containsKey(key) ? number(object, key) : absent;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Map<String, Object> object, String key) {
        return (Map<String, Object>) object.getOrDefault(key, Map.of());
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> objects(Map<String, Object> object, String key) {
        return (List<Map<String, Object>>) object.get(key);
    }

    static Map<String, Object> fields(Object... pairs) {
        var map = new LinkedHashMap<String, Object>();
        for (int at = 0; at < pairs.length; at += 2) {
            map.put((String) pairs[at], pairs[at + 1]);
        }
        return map;
    }

    static void write(Map<String, Object> line) {
        var text = Json.text(line);
        synchronized (System.out) {
            System.out.println(text);
            System.out.flush();
        }
    }

    /** As much JSON as the puppet's lines need; the library brings none. */
    static final class Json {
        private final String input;
        private int at;

        private Json(String input) {
            this.input = input;
        }

        @SuppressWarnings("unchecked")
        static Map<String, Object> object(String input) {
            return (Map<String, Object>) new Json(input).value();
        }

        static String text(Object value) {
            if (value instanceof Map<?, ?> map) {
                return map.entrySet().stream().map(entry -> text(entry.getKey()) + ":" + text(entry.getValue()))
                        .collect(Collectors.joining(",", "{", "}"));
            }
            if (value instanceof List<?> list) {
                return list.stream().map(Json::text).collect(Collectors.joining(",", "[", "]"));
            }
            if (value instanceof String string) {
                var quoted = new StringBuilder("\"");
                for (char c : string.toCharArray()) {
                    if (c < 0x20 || c == '"' || c == '\\' || c > 0x7e) {
                        quoted.append(String.format("\\u%04x", (int) c));
                    } else {
                        quoted.append(c);
                    }
                }
                return quoted.append('"').toString();
            }
            return String.valueOf(value);
        }

        private Object value() {
            switch (next()) {
                case '{' -> {
                    var map = new LinkedHashMap<String, Object>();
                    while (!accept('}')) {
                        accept(',');
                        expect('"');
                        var key = string();
                        expect(':');
                        map.put(key, value());
                    }
                    return map;
                }
                case '[' -> {
                    var list = new ArrayList<>();
                    while (!accept(']')) {
                        accept(',');
                        list.add(value());
                    }
                    return list;
                }
                case '"' -> {
                    return string();
                }
                default -> {
                    int start = at - 1;
                    while (at < input.length() && ",]} ".indexOf(input.charAt(at)) < 0) {
                        at++;
                    }
                    var word = input.substring(start, at);
                    return switch (word) {
                        case "true" -> true;
                        case "false" -> false;
                        case "null" -> null;
                        default -> Long.valueOf(word);
                    };
                }
            }
        }

        private String string() {
            var string = new StringBuilder();
            for (char c; (c = input.charAt(at++)) != '"'; ) {
                if (c != '\\') {
                    string.append(c);
                    continue;
                }
                char escaped = input.charAt(at++);
                switch (escaped) {
                    case 'n' -> string.append('\n');
                    case 't' -> string.append('\t');
                    case 'r' -> string.append('\r');
                    case 'b' -> string.append('\b');
                    case 'f' -> string.append('\f');
                    case 'u' -> {
                        string.append((char) Integer.parseInt(input.substring(at, at + 4), 16));
                        at += 4;
                    }
                    default -> string.append(escaped);
                }
            }
            return string.toString();
        }

        private char next() {
            while (input.charAt(at) == ' ') {
                at++;
            }
            return input.charAt(at++);
        }

        private boolean accept(char wanted) {
            if (next() == wanted) {
                return true;
            }
            at--;
            return false;
        }

        private void expect(char wanted) {
            if (!accept(wanted)) {
                throw new IllegalArgumentException("no " + wanted + " at " + at);
            }
        }
    }
}
