// durable_peers loads brokers that have a protocol of their own in the way durablast loads MQTT ones: publishers that each
// keep a window of unconfirmed messages, into one durable queue, with or without a consumer that acknowledges each.
//
//	durable_peers amqp -url amqp://127.0.0.1:5672 -queue quorum|classic [load]
//	durable_peers jetstream -url nats://127.0.0.1:4222 [load]
//
//	load: -pubs 100 -window 20 -size 256 -seconds 5 -warmup 1 [-online] [-pid BROKER]
//
// One connection per publisher, as devices have. Prints one line of JSON with the names that durablast uses.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	amqp "github.com/rabbitmq/amqp091-go"
)

var (
	url     = flag.String("url", "", "where the broker is")
	queue   = flag.String("queue", "quorum", "quorum or classic")
	pubs    = flag.Int("pubs", 100, "publishers")
	window  = flag.Int("window", 20, "unconfirmed messages of each")
	size    = flag.Int("size", 256, "bytes of a payload")
	seconds = flag.Float64("seconds", 5, "how long is measured")
	warmup  = flag.Float64("warmup", 1, "how long is not, before")
	online  = flag.Bool("online", false, "a consumer takes and acknowledges meanwhile")
	pid     = flag.Int("pid", 0, "the broker's process, for its figures")
)

// meter counts what is confirmed while it measures.
type meter struct {
	measuring, stopping        atomic.Bool
	acked, ackedMeasured       atomic.Int64
	received, receivedMeasured atomic.Int64
	mutex                      sync.Mutex
	latencies                  []float64
}

func (m *meter) confirm(sent time.Time) {
	m.acked.Add(1)
	if m.measuring.Load() {
		// One in sixteen is enough for quantiles, and cheap.
		if m.ackedMeasured.Add(1)%16 == 1 || *pubs == 1 {
			took := float64(time.Since(sent).Microseconds())
			m.mutex.Lock()
			m.latencies = append(m.latencies, took)
			m.mutex.Unlock()
		}
	}
}

func (m *meter) receive() {
	m.received.Add(1)
	if m.measuring.Load() {
		m.receivedMeasured.Add(1)
	}
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("durable_peers amqp|jetstream [options]")
	}
	flag.CommandLine.Parse(os.Args[2:])
	m := &meter{}
	var done *sync.WaitGroup
	switch os.Args[1] {
	case "amqp":
		done = runAmqp(m)
	case "jetstream":
		done = runJetStream(m)
	default:
		log.Fatalf("unknown word %s", os.Args[1])
	}
	time.Sleep(time.Duration(*warmup * float64(time.Second)))
	before, begun := look(), time.Now()
	m.measuring.Store(true)
	time.Sleep(time.Duration(*seconds * float64(time.Second)))
	m.measuring.Store(false)
	took, after := time.Since(begun).Seconds(), look()
	m.stopping.Store(true)
	done.Wait()
	report(m, took, before, after)
}

func runAmqp(m *meter) *sync.WaitGroup {
	connect := func() *amqp.Channel {
		connection, err := amqp.Dial(*url)
		check(err)
		channel, err := connection.Channel()
		check(err)
		return channel
	}
	name := fmt.Sprintf("durable-%s-%d", *queue, os.Getpid())
	setup := connect()
	_, err := setup.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": *queue})
	check(err)
	if *online {
		check(setup.Qos(1000, 0, false))
		deliveries, err := setup.Consume(name, "", false, false, false, false, nil)
		check(err)
		go func() {
			unacked := 0
			for delivery := range deliveries {
				m.receive()
				// Many are acknowledged at once where there are many: the protocol has a word for it.
				if unacked++; unacked >= 100 || len(deliveries) == 0 {
					check(delivery.Ack(true))
					unacked = 0
				}
			}
		}()
	}
	var done sync.WaitGroup
	payload := make([]byte, *size)
	for range *pubs {
		channel := connect()
		check(channel.Confirm(false))
		confirms := channel.NotifyPublish(make(chan amqp.Confirmation, *window))
		// Confirmations come in order, so the times of sending wait in order, too.
		sent := make(chan time.Time, *window)
		free := make(chan struct{}, *window)
		for range *window {
			free <- struct{}{}
		}
		done.Add(1)
		go func() {
			defer done.Done()
			for !m.stopping.Load() {
				<-free
				sent <- time.Now()
				message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: payload}
				check(channel.Publish("", name, false, false, message))
			}
		}()
		go func() {
			for confirmation := range confirms {
				if !confirmation.Ack {
					log.Fatal("a message was refused")
				}
				m.confirm(<-sent)
				free <- struct{}{}
			}
		}()
	}
	return &done
}

func runJetStream(m *meter) *sync.WaitGroup {
	connect := func() nats.JetStreamContext {
		connection, err := nats.Connect(*url)
		check(err)
		stream, err := connection.JetStream(nats.PublishAsyncMaxPending(*window))
		check(err)
		return stream
	}
	setup := connect()
	name := fmt.Sprintf("durable-%d", os.Getpid())
	_, err := setup.AddStream(&nats.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Storage: nats.FileStorage, Replicas: 1})
	check(err)
	if *online {
		options := []nats.SubOpt{nats.Durable("taker"), nats.ManualAck(), nats.AckAll(), nats.MaxAckPending(10000)}
		unacked := 0
		_, err := setup.Subscribe(name+".>", func(message *nats.Msg) {
			m.receive()
			if unacked++; unacked >= 100 {
				check(message.Ack())
				unacked = 0
			}
		}, options...)
		check(err)
	}
	var done sync.WaitGroup
	payload := make([]byte, *size)
	for number := range *pubs {
		stream := connect()
		subject := fmt.Sprintf("%s.%d", name, number)
		type pending struct {
			at     time.Time
			future nats.PubAckFuture
		}
		inFlight := make(chan pending, *window)
		acknowledged := make(chan struct{}, 1)
		done.Add(1)
		go func() {
			defer done.Done()
			for !m.stopping.Load() {
				at := time.Now()
				future, err := stream.PublishAsync(subject, payload, nats.StallWait(time.Minute))
				check(err)
				inFlight <- pending{at, future}
				if *window == 1 {
					<-acknowledged
				}
			}
			close(inFlight)
		}()
		go func() {
			for it := range inFlight {
				select {
				case <-it.future.Ok():
					m.confirm(it.at)
					if *window == 1 {
						acknowledged <- struct{}{}
					}
				case err := <-it.future.Err():
					log.Fatal(err)
				}
			}
		}()
	}
	return &done
}

type figures struct {
	cpu float64
	rss int64
}

// look adds up a process and its children: RabbitMQ has some.
func look() figures {
	var all figures
	if *pid == 0 {
		return all
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", *pid))
	if _, rest, ok := strings.Cut(string(stat), ") "); ok {
		words := strings.Fields(rest)
		user, _ := strconv.ParseFloat(words[11], 64)
		system, _ := strconv.ParseFloat(words[12], 64)
		all.cpu = (user + system) / 100
	}
	all.rss = field(fmt.Sprintf("/proc/%d/status", *pid), "VmRSS:")
	return all
}

func field(path, name string) int64 {
	text, _ := os.ReadFile(path)
	for _, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] == name {
			value, _ := strconv.ParseInt(words[1], 10, 64)
			return value
		}
	}
	return 0
}

func report(m *meter, took float64, before, after figures) {
	sort.Float64s(m.latencies)
	quantile := func(q float64) float64 {
		if len(m.latencies) == 0 {
			return 0
		}
		return m.latencies[int(q*float64(len(m.latencies)-1))]
	}
	count := float64(max(m.ackedMeasured.Load(), 1))
	line, err := json.Marshal(map[string]any{
		"acked": m.acked.Load(), "received": m.received.Load(), "seconds": took,
		"acked_per_s":           float64(m.ackedMeasured.Load()) / took,
		"received_per_s":        float64(m.receivedMeasured.Load()) / took,
		"lat_us":                map[string]float64{"p50": quantile(0.5), "p99": quantile(0.99)},
		"broker_cpu_us_per_msg": (after.cpu - before.cpu) * 1e6 / count,
		"broker_cpu":            (after.cpu - before.cpu) / took,
		"rss_mib":               float64(after.rss) / 1024,
	})
	check(err)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
