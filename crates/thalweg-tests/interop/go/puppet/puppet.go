// Package puppet holds the lines between a Go client library and the checks; see ../../README.md.
package puppet

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Patience bounds every wait for the broker; the checks have a longer one of their own.
const Patience = 15 * time.Second

// Command is one line of input; each verb reads the fields it needs.
type Command struct {
	ID        int      `json:"id"`
	Do        string   `json:"do"`
	Peer      string   `json:"peer"`
	Version   int      `json:"version"`
	Transport string   `json:"transport"`
	Host      string   `json:"host"`
	Port      int      `json:"port"`
	CA        string   `json:"ca"`
	ClientID  string   `json:"client_id"`
	Clean     bool     `json:"clean"`
	Expiry    uint32   `json:"expiry"`
	Will      *Message `json:"will"`
	// Filters are objects for subscribe and strings for unsubscribe.
	Filters    json.RawMessage `json:"filters"`
	Identifier int             `json:"identifier"`
	Message
}

// Message is what publish and will send and what a message event carries.
type Message struct {
	Topic      string     `json:"topic"`
	Payload    Hex        `json:"payload"`
	QoS        byte       `json:"qos"`
	Retain     bool       `json:"retain"`
	Properties Properties `json:"properties"`
}

// Properties are those of a PUBLISH; absent ones are nil or empty.
type Properties struct {
	User          [][2]string `json:"user,omitempty"`
	ContentType   string      `json:"content_type,omitempty"`
	ResponseTopic string      `json:"response_topic,omitempty"`
	Correlation   Hex         `json:"correlation,omitempty"`
	Expiry        *uint32     `json:"expiry,omitempty"`
	Format        *byte       `json:"format,omitempty"`
	Alias         *uint16     `json:"alias,omitempty"`
	Identifiers   []int       `json:"identifiers,omitempty"`
}

// Filter is one entry of a subscribe.
type Filter struct {
	Filter            string `json:"filter"`
	QoS               byte   `json:"qos"`
	NoLocal           bool   `json:"no_local"`
	RetainAsPublished bool   `json:"retain_as_published"`
	RetainHandling    byte   `json:"retain_handling"`
}

// Hex is bytes written as hexadecimal digits.
type Hex []byte

// MarshalText writes the digits.
func (h Hex) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h)), nil }

// UnmarshalText reads the digits.
func (h *Hex) UnmarshalText(text []byte) error {
	decoded, err := hex.DecodeString(string(text))
	*h = decoded
	return err
}

// Fields are the members of a reply.
type Fields map[string]any

// Peer is one client of the library under test.
type Peer interface {
	Connect(Command) (Fields, error)
	Subscribe(Command, []Filter) (Fields, error)
	Unsubscribe(Command, []string) (Fields, error)
	Publish(Command) (Fields, error)
	Disconnect() error
}

// Run obeys standard input until it ends.
func Run(newPeer func(name string) Peer) {
	var peers sync.Map
	write(Fields{"event": "ready"})
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		var command Command
		if err := json.Unmarshal(line, &command); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if command.Do == "connect" {
			peers.Store(command.Peer, newPeer(command.Peer))
		}
		peer, _ := peers.Load(command.Peer)
		go func() {
			reply, err := obey(peer.(Peer), command)
			if reply == nil {
				reply = Fields{}
			}
			reply["reply"] = command.ID
			if err != nil {
				reply["error"] = err.Error()
			}
			write(reply)
		}()
	}
}

// Serve obeys standard input until it ends, for a library whose verbs are not those of Command: each peer is a function
// of the verb and the whole line.
func Serve(newPeer func(name string) func(verb string, line json.RawMessage) (Fields, error)) {
	peers := map[string]func(string, json.RawMessage) (Fields, error){}
	write(Fields{"event": "ready"})
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		var command struct {
			ID   int    `json:"id"`
			Do   string `json:"do"`
			Peer string `json:"peer"`
		}
		if err := json.Unmarshal(line, &command); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if command.Do == "connect" {
			peers[command.Peer] = newPeer(command.Peer)
		}
		peer := peers[command.Peer]
		go func() {
			reply, err := peer(command.Do, line)
			if reply == nil {
				reply = Fields{}
			}
			reply["reply"] = command.ID
			if err != nil {
				reply["error"] = err.Error()
			}
			write(reply)
		}()
	}
}

// Event tells of anything that happened to a peer.
func Event(kind, peer string, fields Fields) {
	fields["event"], fields["peer"] = kind, peer
	write(fields)
}

func obey(peer Peer, command Command) (Fields, error) {
	switch command.Do {
	case "connect":
		return peer.Connect(command)
	case "subscribe":
		var filters []Filter
		if err := json.Unmarshal(command.Filters, &filters); err != nil {
			return nil, err
		}
		return peer.Subscribe(command, filters)
	case "unsubscribe":
		var filters []string
		if err := json.Unmarshal(command.Filters, &filters); err != nil {
			return nil, err
		}
		return peer.Unsubscribe(command, filters)
	case "publish":
		return peer.Publish(command)
	case "disconnect":
		return nil, peer.Disconnect()
	}
	return nil, errors.New("unknown command " + command.Do)
}

// MessageEvent tells of a message that arrived.
func MessageEvent(peer string, message Message) {
	write(Fields{
		"event": "message", "peer": peer, "topic": message.Topic, "payload": message.Payload,
		"qos": message.QoS, "retain": message.Retain, "properties": message.Properties,
	})
}

// ClosedEvent tells of a connection that ended; reason is nil without a DISCONNECT from the broker.
func ClosedEvent(peer string, reason any) {
	write(Fields{"event": "closed", "peer": peer, "reason": reason})
}

// TrustOnly is a TLS configuration that trusts the authority in one file.
func TrustOnly(file string) (*tls.Config, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + file)
	}
	return &tls.Config{RootCAs: pool}, nil
}

var writing sync.Mutex

func write(line Fields) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	writing.Lock()
	defer writing.Unlock()
	os.Stdout.Write(append(text, '\n'))
}
