// A participant of DDS by Fast DDS (Debian's libfastrtps-dev), driven by the lines of `crates/thalweg-dds/tests/peer.py`, of which it
// knows those of readers and writers: read, write, offer, matched, refused, dispose, stop; an endpoint of a quality that Fast DDS
// does not support is answered by 1. A reader with "filter" is of a content-filtered topic. Types are Text, Blob, Reading, Tag and Room; their
// samples are carried as the bytes of CDR, so nothing is generated from IDL. What filters ask for is described to the library.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/log/Log.hpp>
#include <fastdds/dds/log/StdoutErrConsumer.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/ContentFilteredTopic.hpp>
#include <fastdds/dds/topic/Topic.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastrtps/types/DynamicPubSubType.h>
#include <fastrtps/types/DynamicTypeBuilder.h>
#include <fastrtps/types/DynamicTypeBuilderFactory.h>
#include <fastrtps/types/DynamicTypeBuilderPtr.h>
#include <fastrtps/utils/IPLocator.h>
#include <fastrtps/utils/md5.h>

using namespace eprosima::fastdds::dds;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::SerializedPayload_t;

// --- JSON, as far as the lines need it: no escapes but those of quotes and backslashes.

struct Json {
    std::string text; // of a string, or of a number as it was written
    std::vector<Json> items;
    std::map<std::string, Json> fields;

    bool has(const std::string& name) const { return fields.count(name) > 0; }
    const Json& at(const std::string& name) const { return fields.at(name); }
};

class Parser {
public:
    explicit Parser(const std::string& line) : at(line.c_str()) {}

    Json value()
    {
        Json made;
        switch (peek()) {
        case '"':
            made.text = string();
            break;
        case '{':
            each('}', [&] {
                std::string name = (peek(), string());
                expect(':');
                made.fields[name] = value();
            });
            break;
        case '[':
            each(']', [&] { made.items.push_back(value()); });
            break;
        default:
            while (*at && !std::strchr(",]} ", *at)) {
                made.text += *at++;
            }
        }
        return made;
    }

private:
    const char* at;

    char peek()
    {
        while (*at == ' ') {
            ++at;
        }
        return *at;
    }

    void expect(char one)
    {
        if (peek() != one) {
            throw std::runtime_error(std::string("not JSON at ") + at);
        }
        ++at;
    }

    std::string string()
    {
        std::string made;
        expect('"');
        while (*at && *at != '"') {
            at += *at == '\\' ? 1 : 0;
            made += *at++;
        }
        expect('"');
        return made;
    }

    template <class Each>
    void each(char end, Each one)
    {
        ++at;
        while (peek() != end) {
            one();
            if (peek() == ',') {
                ++at;
            }
        }
        ++at;
    }
};

static std::string in_quotes(const std::string& text)
{
    std::string made = "\"";
    for (char letter : text) {
        if (letter == '"' || letter == '\\') {
            made += '\\';
        }
        made += letter;
    }
    return made + "\"";
}

static std::mutex output;

static void say(const std::string& line)
{
    std::lock_guard<std::mutex> lock(output);
    std::cout << line << std::endl;
}

// --- Samples: CDR of little endian with the four bytes of its encapsulation.

using Sample = std::vector<uint8_t>;

template <class T>
static void put(Sample& sample, T value)
{
    while ((sample.size() - 4) % sizeof value != 0) {
        sample.push_back(0);
    }
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(&value);
    sample.insert(sample.end(), bytes, bytes + sizeof value);
}

template <class T>
static T get(const Sample& sample, size_t& at)
{
    T value;
    at = 4 + (at - 4 + sizeof value - 1) / sizeof value * sizeof value;
    if (at + sizeof value > sample.size()) {
        throw std::runtime_error("a sample is too short");
    }
    std::memcpy(&value, &sample[at], sizeof value);
    at += sizeof value;
    return value;
}

static void put_text(Sample& sample, const std::string& text)
{
    put<uint32_t>(sample, text.size() + 1);
    sample.insert(sample.end(), text.c_str(), text.c_str() + text.size() + 1);
}

static std::string get_text(const Sample& sample, size_t& at)
{
    uint32_t length = get<uint32_t>(sample, at);
    if (length == 0 || at + length > sample.size()) {
        throw std::runtime_error("a text is too long");
    }
    std::string text(reinterpret_cast<const char*>(&sample[at]), length - 1);
    at += length;
    return text;
}

static std::string base64(const uint8_t* bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string made;
    for (size_t from = 0; from < count; from += 3) {
        uint32_t three = 0;
        for (size_t one = from; one < from + 3; ++one) {
            three = three << 8 | (one < count ? bytes[one] : 0);
        }
        for (size_t digit = 0; digit < 4; ++digit) {
            made += from + digit > count ? '=' : digits[three >> (18 - 6 * digit) & 63];
        }
    }
    return made;
}

static std::string shown(double value)
{
    char text[32];
    std::snprintf(text, sizeof text, value == static_cast<int64_t>(value) ? "%.1f" : "%.17g", value);
    return text;
}

// The name that the other participants know a type by.
static std::string name_of(const std::string& type)
{
    return type == "Text" ? "std_msgs::msg::dds_::String_" : type == "Tag" || type == "Room" ? "plant::" + type : type;
}

static Sample made(const std::string& type, const Json& value)
{
    Sample sample = {0, 1, 0, 0};
    if (type == "Text") {
        put_text(sample, value.at("data").text);
    } else if (type == "Blob") {
        uint32_t size = std::stoul(value.at("size").text);
        put(sample, size);
        for (uint32_t at = 0; at < size; ++at) {
            sample.push_back(at * 7 % 256);
        }
    } else if (type == "Reading") {
        put<int32_t>(sample, std::stol(value.at("id").text));
        put(sample, std::stod(value.at("value").text));
    } else if (type == "Room") {
        put_text(sample, value.at("name").text);
        put<int32_t>(sample, std::stol(value.at("temp").text));
        put_text(sample, value.at("at").at("site").text);
    } else {
        put_text(sample, value.at("name").text);
        put(sample, std::stod(value.at("size").text));
    }
    return sample;
}

static std::string shown(const std::string& type, const Sample& sample)
{
    size_t at = 4;
    if (type == "Text") {
        return "{\"data\":" + in_quotes(get_text(sample, at)) + "}";
    }
    if (type == "Blob") {
        uint32_t size = get<uint32_t>(sample, at);
        std::string first = base64(&sample[at], std::min<size_t>(16, sample.size() - at));
        return "{\"size\":" + std::to_string(size) + ",\"first\":" + in_quotes(first) + "}";
    }
    if (type == "Reading") {
        int32_t id = get<int32_t>(sample, at);
        return "{\"id\":" + std::to_string(id) + ",\"value\":" + shown(get<double>(sample, at)) + "}";
    }
    std::string name = get_text(sample, at);
    if (type == "Room") {
        int32_t temp = get<int32_t>(sample, at);
        std::string site = get_text(sample, at);
        return "{\"name\":" + in_quotes(name) + ",\"temp\":" + std::to_string(temp) + ",\"at\":{\"site\":" + in_quotes(site) + "}}";
    }
    return "{\"name\":" + in_quotes(name) + ",\"size\":" + shown(get<double>(sample, at)) + "}";
}

class Type : public TopicDataType {
public:
    explicit Type(const std::string& kind) : kind(kind)
    {
        setName(name_of(kind).c_str());
        m_typeSize = 256;
        m_isGetKeyDefined = kind == "Reading" || kind == "Tag";
        auto_fill_type_object(false);
        auto_fill_type_information(false);
    }

    bool serialize(void* data, SerializedPayload_t* payload) override
    {
        const Sample& sample = *static_cast<Sample*>(data);
        if (sample.size() > payload->max_size) {
            return false;
        }
        payload->encapsulation = CDR_LE;
        payload->length = sample.size();
        std::memcpy(payload->data, sample.data(), sample.size());
        return true;
    }

    bool deserialize(SerializedPayload_t* payload, void* data) override
    {
        static_cast<Sample*>(data)->assign(payload->data, payload->data + payload->length);
        return true;
    }

    std::function<uint32_t()> getSerializedSizeProvider(void* data) override
    {
        return [data] { return static_cast<uint32_t>(static_cast<Sample*>(data)->size()); };
    }

    void* createData() override { return new Sample; }

    void deleteData(void* data) override { delete static_cast<Sample*>(data); }

    // The key in big endian, or its MD5 where it may be longer than 16 bytes (DDSI-RTPS 2.5 §9.6.4.8).
    bool getKey(void* data, InstanceHandle_t* handle, bool force_md5) override
    {
        const Sample& sample = *static_cast<Sample*>(data);
        std::vector<uint8_t> key;
        auto put_number = [&](uint32_t number) {
            for (int shift : {24, 16, 8, 0}) {
                key.push_back(number >> shift & 255);
            }
        };
        size_t at = 4;
        if (kind == "Reading") {
            put_number(get<int32_t>(sample, at));
        } else if (kind == "Tag") {
            std::string name = get_text(sample, at);
            put_number(name.size() + 1);
            key.insert(key.end(), name.c_str(), name.c_str() + name.size() + 1);
        } else {
            return false;
        }
        for (int at = 0; at < 16; ++at) {
            handle->value[at] = at < static_cast<int>(key.size()) ? key[at] : 0;
        }
        if (kind == "Tag" || force_md5) {
            MD5 md5;
            md5.init();
            md5.update(key.data(), key.size());
            md5.finalize();
            std::memcpy(&handle->value[0], md5.digest, 16);
        }
        return true;
    }

private:
    const std::string kind;
};

// Says what a Room is, for filters: the library registers the description under the type's name and not under this one.
static void describe_room(DomainParticipant* participant)
{
    using namespace eprosima::fastrtps::types;
    auto factory = DynamicTypeBuilderFactory::get_instance();
    DynamicTypeBuilder* place = factory->create_struct_builder();
    place->set_name("plant::Place");
    place->add_member(0, "site", factory->create_string_type());
    DynamicTypeBuilder* room = factory->create_struct_builder();
    room->set_name(name_of("Room"));
    room->add_member(0, "name", factory->create_string_type());
    room->add_member(1, "temp", factory->create_int32_type());
    room->add_member(2, "at", place->build());
    TypeSupport(new DynamicPubSubType(room->build())).register_type(participant, "description of Room");
}

// --- Quality.

// One word of `peer.py`, for a reader as for a writer. What of it belongs to one only, or to what it is in, is below.
template <class Qos>
static void set(Qos& qos, const std::string& word, uint32_t number)
{
    Duration_t time(number / 1000, number % 1000 * 1000000);
    auto liveliness = [&](LivelinessQosPolicyKind kind) {
        qos.liveliness().kind = kind;
        qos.liveliness().lease_duration = time;
        qos.liveliness().announcement_period = Duration_t(number / 1000.0 / 3);
    };
    if (word == "reliable") {
        qos.reliability().kind = RELIABLE_RELIABILITY_QOS;
    } else if (word == "best-effort") {
        qos.reliability().kind = BEST_EFFORT_RELIABILITY_QOS;
    } else if (word == "transient-local") {
        qos.durability().kind = TRANSIENT_LOCAL_DURABILITY_QOS;
    } else if (word == "transient") {
        qos.durability().kind = TRANSIENT_DURABILITY_QOS;
    } else if (word == "keep-all") {
        qos.history().kind = KEEP_ALL_HISTORY_QOS;
    } else if (word == "exclusive") {
        qos.ownership().kind = EXCLUSIVE_OWNERSHIP_QOS;
    } else if (word == "deadline") {
        qos.deadline().period = time;
    } else if (word == "budget") {
        qos.latency_budget().duration = time;
    } else if (word == "automatic") {
        liveliness(AUTOMATIC_LIVELINESS_QOS);
    } else if (word == "by-topic") {
        liveliness(MANUAL_BY_TOPIC_LIVELINESS_QOS);
    } else if (word == "by-participant") {
        liveliness(MANUAL_BY_PARTICIPANT_LIVELINESS_QOS);
    } else if (word == "lifespan") {
        qos.lifespan().duration = time;
    } else if (word == "source-order") {
        qos.destination_order().kind = BY_SOURCE_TIMESTAMP_DESTINATIONORDER_QOS;
    }
}

// False for what Fast DDS 2 has a setting for and neither announces nor does: XCDR2.
template <class Group, class Qos>
static bool set_all(const Json& line, Group& group, Qos& qos)
{
    // The defaults of the specification.
    qos.durability().kind = VOLATILE_DURABILITY_QOS;
    qos.endpoint().history_memory_policy = eprosima::fastrtps::rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
    if (!line.has("qos")) {
        return true;
    }
    for (const Json& one : line.at("qos").items) {
        size_t colon = one.text.find(':');
        std::string word = one.text.substr(0, colon);
        std::string rest = colon == std::string::npos ? "" : one.text.substr(colon + 1);
        if (word == "partition") {
            group.partition().push_back(rest.c_str());
        } else if (word == "ordered" || word == "per-topic") {
            group.presentation().access_scope = TOPIC_PRESENTATION_QOS;
            group.presentation().ordered_access = word == "ordered";
        } else if (word == "xcdr2") {
            return false;
        } else {
            set(qos, word, !rest.empty() ? std::stoul(rest) : word == "budget" ? 1 : 60000);
        }
    }
    return true;
}

// --- Endpoints.

class Ears : public DataReaderListener {
public:
    Ears(const std::string& name, const std::string& type) : name(in_quotes(name)), type(type) {}

    void on_data_available(DataReader* reader) override
    {
        Sample sample;
        SampleInfo info;
        while (reader->take_next_sample(&sample, &info) == ReturnCode_t::RETCODE_OK) {
            if (info.valid_data) {
                say("{\"topic\":" + name + ",\"value\":" + shown(type, sample) + "}");
            } else if (info.instance_state == NOT_ALIVE_DISPOSED_INSTANCE_STATE) {
                say("{\"topic\":" + name + ",\"state\":\"gone\"}");
            }
        }
    }

private:
    const std::string name, type;
};

// The answer to `read` and `offer` of what the library does not support.
static const size_t NOT_MADE = 1;

class Script {
public:
    explicit Script(DomainParticipant* participant) : participant(participant)
    {
        for (const char* type : {"Text", "Blob", "Reading", "Tag", "Room"}) {
            TypeSupport(new Type(type)).register_type(participant);
        }
        describe_room(participant);
    }

    size_t run(const Json& line)
    {
        const std::string& what = line.at("do").text;
        const std::string& name = line.at(line.has("as") ? "as" : "topic").text;
        if (what == "read") {
            SubscriberQos group;
            DataReaderQos qos;
            if (!set_all(line, group, qos)) {
                return NOT_MADE;
            }
            Subscriber* subscriber = participant->create_subscriber(group);
            Ears* ears = new Ears(name, line.at("type").text);
            TopicDescription* of = topic(line);
            if (line.has("filter")) {
                of = participant->create_contentfilteredtopic("filtered " + name, topic(line), line.at("filter").text, {});
            }
            DataReader* made = of ? subscriber->create_datareader(of, qos, ears) : nullptr;
            if (!made) {
                return NOT_MADE;
            }
            readers[name] = made;
        } else if (what == "offer") {
            if (!writer(line, name)) {
                return NOT_MADE;
            }
        } else if (what == "write") {
            Sample sample = made(line.at("type").text, line.at("value"));
            if (!there(writer(line, name))->write(&sample)) {
                throw std::runtime_error("not written");
            }
        } else if (what == "dispose") {
            Sample sample = made(line.at("type").text, line.at("value"));
            DataWriter* writer = writers.at(name);
            if (writer->dispose(&sample, InstanceHandle_t()) != ReturnCode_t::RETCODE_OK) {
                throw std::runtime_error("not disposed of");
            }
        } else if (!writers.count(name) && !readers.count(name)) {
            // It was not made, or was stopped.
            return 0;
        } else if (what == "matched") {
            PublicationMatchedStatus of_writer;
            SubscriptionMatchedStatus of_reader;
            if (writers.count(name)) {
                writers[name]->get_publication_matched_status(of_writer);
                return of_writer.current_count;
            }
            readers.at(name)->get_subscription_matched_status(of_reader);
            return of_reader.current_count;
        } else if (what == "refused") {
            IncompatibleQosStatus status;
            if (writers.count(name)) {
                writers[name]->get_offered_incompatible_qos_status(status);
            } else {
                readers.at(name)->get_requested_incompatible_qos_status(status);
            }
            return status.last_policy_id;
        } else if (what == "stop") {
            if (writers.count(name)) {
                const Publisher* publisher = writers[name]->get_publisher();
                const_cast<Publisher*>(publisher)->delete_datawriter(writers[name]);
                writers.erase(name);
            }
            if (readers.count(name)) {
                const Subscriber* subscriber = readers[name]->get_subscriber();
                const_cast<Subscriber*>(subscriber)->delete_datareader(readers[name]);
                readers.erase(name);
            }
        } else {
            throw std::runtime_error(what + " is not known");
        }
        return 0;
    }

private:
    DomainParticipant* participant;
    std::map<std::string, Topic*> topics;
    std::map<std::string, DataReader*> readers;
    std::map<std::string, DataWriter*> writers;

    template <class T>
    static T* there(T* made)
    {
        if (!made) {
            throw std::runtime_error("not made");
        }
        return made;
    }

    Topic* topic(const Json& line)
    {
        Topic*& found = topics[line.at("topic").text];
        if (!found) {
            std::string type = name_of(line.at("type").text);
            found = there(participant->create_topic(line.at("topic").text, type, TOPIC_QOS_DEFAULT));
        }
        return found;
    }

    // Null if the library refuses to make it.
    DataWriter* writer(const Json& line, const std::string& name)
    {
        if (writers.count(name)) {
            return writers[name];
        }
        PublisherQos group;
        DataWriterQos qos;
        if (!set_all(line, group, qos)) {
            return nullptr;
        }
        // What is larger than a packet is sent in fragments.
        qos.publish_mode().kind = ASYNCHRONOUS_PUBLISH_MODE;
        DataWriter* made = participant->create_publisher(group)->create_datawriter(topic(line), qos);
        if (made) {
            writers[name] = made;
        }
        return made;
    }
};

// On the loopback interface, without multicast and shared memory; the first participants of the domain there are its peers.
static DomainParticipantQos on_loopback()
{
    auto udp = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();
    udp->interfaceWhiteList = {"127.0.0.1"};
    udp->maxInitialPeersRange = 8;
    DomainParticipantQos qos;
    qos.transport().use_builtin_transports = false;
    qos.transport().user_transports = {udp};
    eprosima::fastrtps::rtps::Locator_t peer;
    eprosima::fastrtps::rtps::IPLocator::setIPv4(peer, 127, 0, 0, 1);
    qos.wire_protocol().builtin.initialPeersList.push_back(peer);
    return qos;
}

int main(int, char** arguments)
{
    // Standard output is for answers.
    std::unique_ptr<StdoutErrConsumer> log(new StdoutErrConsumer);
    log->stderr_threshold(Log::Kind::Info);
    Log::ClearConsumers();
    Log::RegisterConsumer(std::move(log));
    auto factory = DomainParticipantFactory::get_instance();
    DomainParticipant* participant = factory->create_participant(std::stoul(arguments[1]), on_loopback());
    if (!participant) {
        return 1;
    }
    Script script(participant);
    std::string line;
    while (std::getline(std::cin, line)) {
        say("{\"done\":" + std::to_string(script.run(Parser(line).value())) + "}");
    }
    // Its threads end with the process.
    std::_Exit(0);
}
