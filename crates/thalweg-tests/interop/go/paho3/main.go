// Eclipse Paho for Go (paho.mqtt.golang) as a puppet: MQTT 3.1 and 3.1.1 over TCP, TLS and WebSocket.
package main

import (
	"errors"
	"fmt"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"thalweg.invalid/interop/puppet"
)

type peer struct {
	name   string
	client mqtt.Client
}

func main() {
	puppet.Run(func(name string) puppet.Peer { return &peer{name: name} })
}

func (p *peer) Connect(command puppet.Command) (puppet.Fields, error) {
	schemes := map[string]string{"tcp": "tcp", "tls": "ssl", "ws": "ws", "wss": "wss"}
	url := fmt.Sprintf("%s://%s:%d", schemes[command.Transport], command.Host, command.Port)
	if command.Transport == "ws" || command.Transport == "wss" {
		url += "/mqtt"
	}
	options := mqtt.NewClientOptions().
		AddBroker(url).
		SetClientID(command.ClientID).
		SetProtocolVersion(uint(command.Version)).
		SetCleanSession(command.Clean).
		SetAutoReconnect(false).
		SetConnectTimeout(puppet.Patience).
		SetOrderMatters(true).
		SetDefaultPublishHandler(p.onMessage).
		SetConnectionLostHandler(func(mqtt.Client, error) { puppet.ClosedEvent(p.name, nil) })
	if command.CA != "" {
		config, err := puppet.TrustOnly(command.CA)
		if err != nil {
			return nil, err
		}
		options.SetTLSConfig(config)
	}
	if command.Will != nil {
		options.SetBinaryWill(command.Will.Topic, command.Will.Payload, command.Will.QoS, command.Will.Retain)
	}
	p.client = mqtt.NewClient(options)
	token := p.client.Connect()
	if err := wait(token); err != nil {
		return nil, err
	}
	connack := token.(*mqtt.ConnectToken)
	return puppet.Fields{"session_present": connack.SessionPresent(), "reason": connack.ReturnCode()}, nil
}

func (p *peer) Subscribe(_ puppet.Command, filters []puppet.Filter) (puppet.Fields, error) {
	wanted := map[string]byte{}
	for _, f := range filters {
		wanted[f.Filter] = f.QoS
	}
	token := p.client.SubscribeMultiple(wanted, nil)
	if err := wait(token); err != nil {
		return nil, err
	}
	reasons := []int{}
	for _, f := range filters {
		reasons = append(reasons, int(token.(*mqtt.SubscribeToken).Result()[f.Filter]))
	}
	return puppet.Fields{"reasons": reasons}, nil
}

func (p *peer) Unsubscribe(_ puppet.Command, filters []string) (puppet.Fields, error) {
	return puppet.Fields{"reasons": []int{}}, wait(p.client.Unsubscribe(filters...))
}

func (p *peer) Publish(command puppet.Command) (puppet.Fields, error) {
	token := p.client.Publish(command.Topic, command.QoS, command.Retain, []byte(command.Payload))
	return puppet.Fields{"reason": 0}, wait(token)
}

func (p *peer) Disconnect() error {
	p.client.Disconnect(1000)
	return nil
}

func (p *peer) onMessage(_ mqtt.Client, message mqtt.Message) {
	puppet.MessageEvent(p.name, puppet.Message{
		Topic: message.Topic(), Payload: message.Payload(), QoS: message.Qos(), Retain: message.Retained(),
	})
}

func wait(token mqtt.Token) error {
	if !token.WaitTimeout(puppet.Patience) {
		return errors.New("no answer")
	}
	return token.Error()
}
