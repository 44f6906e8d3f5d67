// amqp091-go as a puppet: AMQP 0-9-1, one connection with one channel per peer.
package main

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"thalweg.invalid/interop/puppet"
)

type peer struct {
	name       string
	connection *amqp.Connection
	channel    *amqp.Channel
	publishing *amqp.Channel
	returns    chan amqp.Return
	one        sync.Mutex
}

// command has the members of every verb.
type command struct {
	Host       string     `json:"host"`
	Port       int        `json:"port"`
	User       string     `json:"user"`
	Password   string     `json:"password"`
	Vhost      string     `json:"vhost"`
	Queue      string     `json:"queue"`
	Exchange   string     `json:"exchange"`
	Key        string     `json:"key"`
	Tag        string     `json:"tag"`
	Delivery   uint64     `json:"delivery"`
	Passive    bool       `json:"passive"`
	Durable    bool       `json:"durable"`
	Exclusive  bool       `json:"exclusive"`
	AutoDelete bool       `json:"auto_delete"`
	NoAck      bool       `json:"no_ack"`
	Mandatory  bool       `json:"mandatory"`
	Multiple   bool       `json:"multiple"`
	Requeue    *bool      `json:"requeue"`
	Prefetch   int        `json:"prefetch"`
	Heartbeat  int        `json:"heartbeat"`
	CA         string     `json:"ca"`
	Same       bool       `json:"same_channel"`
	Payload    puppet.Hex `json:"payload"`
	Arguments  []pair     `json:"arguments"`
	Properties properties `json:"properties"`
}

type properties struct {
	ContentType     string `json:"content_type,omitempty"`
	ContentEncoding string `json:"content_encoding,omitempty"`
	DeliveryMode    uint8  `json:"delivery_mode,omitempty"`
	Priority        *uint8 `json:"priority,omitempty"`
	CorrelationID   string `json:"correlation_id,omitempty"`
	ReplyTo         string `json:"reply_to,omitempty"`
	Expiration      string `json:"expiration,omitempty"`
	MessageID       string `json:"message_id,omitempty"`
	Timestamp       int64  `json:"timestamp,omitempty"`
	Type            string `json:"type,omitempty"`
	UserID          string `json:"user_id,omitempty"`
	AppID           string `json:"app_id,omitempty"`
	Headers         []pair `json:"headers,omitempty"`
}

// pair is a name and a typed value, itself a pair of kind and value.
type pair struct {
	name  string
	value any
}

func main() {
	puppet.Serve(func(name string) func(string, json.RawMessage) (puppet.Fields, error) {
		p := &peer{name: name}
		return p.obey
	})
}

func (p *peer) obey(verb string, line json.RawMessage) (puppet.Fields, error) {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	switch verb {
	case "connect":
		return nil, p.connect(c)
	case "declare":
		return p.declare(c)
	case "delete":
		_, err := p.channel.QueueDelete(c.Queue, false, false, false)
		return nil, err
	case "bind":
		return nil, p.channel.QueueBind(c.Queue, c.Key, c.Exchange, false, table(c.Arguments))
	case "consume":
		return p.consume(c)
	case "cancel":
		return nil, p.channel.Cancel(c.Tag, false)
	case "publish":
		return p.publish(c)
	case "ack":
		return nil, p.channel.Ack(c.Delivery, c.Multiple)
	case "nack":
		return nil, p.channel.Nack(c.Delivery, c.Multiple, c.Requeue == nil || *c.Requeue)
	case "disconnect":
		return nil, p.connection.Close()
	}
	return nil, errors.New("unknown command " + verb)
}

func (p *peer) connect(c command) error {
	user, password, vhost := c.User, c.Password, c.Vhost
	if user == "" {
		user, password = "guest", "guest"
	}
	if vhost == "" {
		vhost = "/"
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 30
	}
	scheme, config := "amqp", (*tls.Config)(nil)
	if c.CA != "" {
		var err error
		if scheme, config, err = trusting(c.CA); err != nil {
			return err
		}
	}
	connection, err := amqp.DialConfig(fmt.Sprintf("%s://%s:%d", scheme, c.Host, c.Port), amqp.Config{
		TLSClientConfig: config,
		SASL:            []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}},
		Vhost:           vhost,
		Heartbeat:       time.Duration(c.Heartbeat) * time.Second,
	})
	if err != nil {
		return err
	}
	p.connection = connection
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		if err := <-closed; err != nil {
			puppet.Event("closed", p.name, puppet.Fields{"code": err.Code, "text": err.Reason})
		} else {
			puppet.Event("closed", p.name, puppet.Fields{})
		}
	}()
	if p.channel, err = connection.Channel(); err != nil {
		return err
	}
	cancelled := p.channel.NotifyCancel(make(chan string, 16))
	go func() {
		for tag := range cancelled {
			puppet.Event("cancelled", p.name, puppet.Fields{"tag": tag})
		}
	}()
	if p.publishing, err = connection.Channel(); err != nil {
		return err
	}
	p.returns = p.publishing.NotifyReturn(make(chan amqp.Return, 16))
	return p.publishing.Confirm(false)
}

func trusting(authority string) (string, *tls.Config, error) {
	config, err := puppet.TrustOnly(authority)
	return "amqps", config, err
}

func (p *peer) declare(c command) (puppet.Fields, error) {
	declare := p.channel.QueueDeclare
	if c.Passive {
		declare = p.channel.QueueDeclarePassive
	}
	queue, err := declare(c.Queue, c.Durable, c.AutoDelete, c.Exclusive, false, table(c.Arguments))
	if err != nil {
		return nil, err
	}
	return puppet.Fields{"queue": queue.Name, "messages": queue.Messages, "consumers": queue.Consumers}, nil
}

func (p *peer) consume(c command) (puppet.Fields, error) {
	if c.Prefetch > 0 {
		if err := p.channel.Qos(c.Prefetch, 0, false); err != nil {
			return nil, err
		}
	}
	if c.Tag == "" {
		c.Tag = "consumer-" + p.name
	}
	deliveries, err := p.channel.Consume(c.Queue, c.Tag, c.NoAck, c.Exclusive, false, false, table(c.Arguments))
	if err != nil {
		return nil, err
	}
	go func() {
		for delivery := range deliveries {
			puppet.Event("message", p.name, told(delivery))
		}
	}()
	return puppet.Fields{"tag": c.Tag}, nil
}

func (p *peer) publish(c command) (puppet.Fields, error) {
	p.one.Lock()
	defer p.one.Unlock()
	wanted := c.Properties
	message := amqp.Publishing{
		Headers: table(wanted.Headers), ContentType: wanted.ContentType, ContentEncoding: wanted.ContentEncoding,
		DeliveryMode: wanted.DeliveryMode, CorrelationId: wanted.CorrelationID, ReplyTo: wanted.ReplyTo,
		Expiration: wanted.Expiration, MessageId: wanted.MessageID, Type: wanted.Type, UserId: wanted.UserID,
		AppId: wanted.AppID, Body: c.Payload,
	}
	if wanted.Priority != nil {
		message.Priority = *wanted.Priority
	}
	if wanted.Timestamp != 0 {
		message.Timestamp = time.Unix(wanted.Timestamp, 0)
	}
	patience, stop := context.WithTimeout(context.Background(), puppet.Patience)
	defer stop()
	if c.Same {
		err := p.channel.PublishWithContext(patience, c.Exchange, c.Key, c.Mandatory, false, message)
		return puppet.Fields{"outcome": "sent"}, err
	}
	confirm, err := p.publishing.PublishWithDeferredConfirmWithContext(
		patience, c.Exchange, c.Key, c.Mandatory, false, message)
	if err != nil {
		return nil, err
	}
	confirmed, err := confirm.WaitContext(patience)
	if err != nil {
		return nil, err
	}
	// A return comes before its confirm on the same channel.
	select {
	case <-p.returns:
		return puppet.Fields{"outcome": "returned"}, nil
	default:
	}
	if !confirmed {
		return puppet.Fields{"outcome": "refused"}, nil
	}
	return puppet.Fields{"outcome": "confirmed"}, nil
}

func told(d amqp.Delivery) puppet.Fields {
	sent := properties{
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageID: d.MessageId,
		Type: d.Type, UserID: d.UserId, AppID: d.AppId,
	}
	// The library has no word for an absent priority.
	if d.Priority != 0 {
		sent.Priority = &d.Priority
	}
	if !d.Timestamp.IsZero() {
		sent.Timestamp = d.Timestamp.Unix()
	}
	for name, value := range d.Headers {
		sent.Headers = append(sent.Headers, pair{name, value})
	}
	return puppet.Fields{
		"exchange": d.Exchange, "key": d.RoutingKey, "tag": d.ConsumerTag, "delivery": d.DeliveryTag,
		"redelivered": d.Redelivered, "payload": puppet.Hex(d.Body), "properties": sent,
	}
}

func table(pairs []pair) amqp.Table {
	if pairs == nil {
		return nil
	}
	headers := amqp.Table{}
	for _, p := range pairs {
		headers[p.name] = p.value
	}
	return headers
}

// UnmarshalJSON reads ["name", ["kind", value]].
func (p *pair) UnmarshalJSON(text []byte) error {
	var raw [2]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw[0], &p.name); err != nil {
		return err
	}
	var err error
	p.value, err = typed(raw[1])
	return err
}

func typed(text json.RawMessage) (any, error) {
	var raw [2]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	var kind string
	if err := json.Unmarshal(raw[0], &kind); err != nil {
		return nil, err
	}
	switch kind {
	case "int", "time":
		var value int64
		err := json.Unmarshal(raw[1], &value)
		if kind == "time" {
			return time.Unix(value, 0), err
		}
		return value, err
	case "bytes":
		var value puppet.Hex
		err := json.Unmarshal(raw[1], &value)
		return []byte(value), err
	case "list":
		var items []json.RawMessage
		if err := json.Unmarshal(raw[1], &items); err != nil {
			return nil, err
		}
		list := []any{}
		for _, item := range items {
			value, err := typed(item)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case "map":
		var pairs []pair
		err := json.Unmarshal(raw[1], &pairs)
		return table(pairs), err
	}
	var value any
	err := json.Unmarshal(raw[1], &value)
	return value, err
}

// MarshalJSON writes the same form.
func (p pair) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.name, kinded(p.value)})
}

func kinded(value any) []any {
	switch v := value.(type) {
	case nil:
		return []any{"null", nil}
	case bool:
		return []any{"bool", v}
	case float32, float64, amqp.Decimal:
		return []any{"float", v}
	case string:
		return []any{"text", v}
	case []byte:
		return []any{"bytes", hex.EncodeToString(v)}
	case time.Time:
		return []any{"time", v.Unix()}
	case []any:
		list := []any{}
		for _, item := range v {
			list = append(list, kinded(item))
		}
		return []any{"list", list}
	case amqp.Table:
		pairs := []pair{}
		for name, item := range v {
			pairs = append(pairs, pair{name, item})
		}
		return []any{"map", pairs}
	}
	return []any{"int", value}
}
