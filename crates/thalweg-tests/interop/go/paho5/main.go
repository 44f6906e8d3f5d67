// Eclipse Paho for Go (paho.golang) as a puppet: MQTT 5 over TCP and TLS.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"thalweg.invalid/interop/puppet"
)

type peer struct {
	name   string
	client *paho.Client
}

func main() {
	puppet.Run(func(name string) puppet.Peer { return &peer{name: name} })
}

func (p *peer) Connect(command puppet.Command) (puppet.Fields, error) {
	connection, err := dial(command)
	if err != nil {
		return nil, err
	}
	p.client = paho.NewClient(paho.ClientConfig{
		Conn:              packets.NewThreadSafeConn(connection),
		PacketTimeout:     puppet.Patience,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){p.onMessage},
		OnServerDisconnect: func(disconnect *paho.Disconnect) {
			puppet.ClosedEvent(p.name, disconnect.ReasonCode)
		},
		OnClientError: func(error) { puppet.ClosedEvent(p.name, nil) },
	})
	connect := &paho.Connect{
		ClientID:   command.ClientID,
		CleanStart: command.Clean,
		KeepAlive:  30,
		Properties: &paho.ConnectProperties{SessionExpiryInterval: &command.Expiry, RequestProblemInfo: true},
	}
	if will := command.Will; will != nil {
		connect.WillMessage = &paho.WillMessage{
			Topic: will.Topic, Payload: will.Payload, QoS: will.QoS, Retain: will.Retain,
		}
		connect.WillProperties = &paho.WillProperties{
			ContentType: will.Properties.ContentType, ResponseTopic: will.Properties.ResponseTopic,
			CorrelationData: will.Properties.Correlation, MessageExpiry: will.Properties.Expiry,
			PayloadFormat: will.Properties.Format, User: user(will.Properties.User),
		}
	}
	patience, cancel := context.WithTimeout(context.Background(), puppet.Patience)
	defer cancel()
	connack, err := p.client.Connect(patience, connect)
	if err != nil {
		return nil, err
	}
	return puppet.Fields{"session_present": connack.SessionPresent, "reason": connack.ReasonCode}, nil
}

func (p *peer) Subscribe(command puppet.Command, filters []puppet.Filter) (puppet.Fields, error) {
	subscribe := &paho.Subscribe{}
	if command.Identifier != 0 {
		subscribe.Properties = &paho.SubscribeProperties{SubscriptionIdentifier: &command.Identifier}
	}
	for _, f := range filters {
		subscribe.Subscriptions = append(subscribe.Subscriptions, paho.SubscribeOptions{
			Topic: f.Filter, QoS: f.QoS, NoLocal: f.NoLocal,
			RetainAsPublished: f.RetainAsPublished, RetainHandling: f.RetainHandling,
		})
	}
	suback, err := p.client.Subscribe(context.Background(), subscribe)
	if suback == nil {
		return nil, err
	}
	return puppet.Fields{"reasons": numbers(suback.Reasons)}, nil
}

func (p *peer) Unsubscribe(_ puppet.Command, filters []string) (puppet.Fields, error) {
	unsuback, err := p.client.Unsubscribe(context.Background(), &paho.Unsubscribe{Topics: filters})
	if unsuback == nil {
		return nil, err
	}
	return puppet.Fields{"reasons": numbers(unsuback.Reasons)}, nil
}

func (p *peer) Publish(command puppet.Command) (puppet.Fields, error) {
	wanted := command.Properties
	response, err := p.client.Publish(context.Background(), &paho.Publish{
		Topic: command.Topic, Payload: command.Payload, QoS: command.QoS, Retain: command.Retain,
		Properties: &paho.PublishProperties{
			ContentType: wanted.ContentType, ResponseTopic: wanted.ResponseTopic, CorrelationData: wanted.Correlation,
			MessageExpiry: wanted.Expiry, PayloadFormat: wanted.Format, TopicAlias: wanted.Alias, User: user(wanted.User),
		},
	})
	if response == nil {
		return nil, err
	}
	return puppet.Fields{"reason": response.ReasonCode}, nil
}

func (p *peer) Disconnect() error {
	return p.client.Disconnect(&paho.Disconnect{})
}

func (p *peer) onMessage(received paho.PublishReceived) (bool, error) {
	packet := received.Packet
	sent := packet.Properties
	message := puppet.Message{
		Topic: packet.Topic, Payload: packet.Payload, QoS: packet.QoS, Retain: packet.Retain,
		Properties: puppet.Properties{
			ContentType: sent.ContentType, ResponseTopic: sent.ResponseTopic, Correlation: sent.CorrelationData,
			Expiry: sent.MessageExpiry, Format: sent.PayloadFormat,
		},
	}
	for _, property := range sent.User {
		message.Properties.User = append(message.Properties.User, [2]string{property.Key, property.Value})
	}
	if sent.SubscriptionIdentifier != nil {
		message.Properties.Identifiers = []int{*sent.SubscriptionIdentifier}
	}
	puppet.MessageEvent(p.name, message)
	return true, nil
}

func dial(command puppet.Command) (net.Conn, error) {
	address := fmt.Sprintf("%s:%d", command.Host, command.Port)
	dialer := &net.Dialer{Timeout: puppet.Patience}
	if command.Transport != "tls" {
		return dialer.Dial("tcp", address)
	}
	config, err := puppet.TrustOnly(command.CA)
	if err != nil {
		return nil, err
	}
	return tls.DialWithDialer(dialer, "tcp", address, config)
}

func user(pairs [][2]string) (properties paho.UserProperties) {
	for _, pair := range pairs {
		properties.Add(pair[0], pair[1])
	}
	return properties
}

// numbers keeps JSON from writing a byte slice as base64.
func numbers(reasons []byte) []int {
	list := make([]int, 0, len(reasons))
	for _, reason := range reasons {
		list = append(list, int(reason))
	}
	return list
}
