module thalweg.invalid/interop

go 1.24.0

require (
	github.com/eclipse/paho.golang v0.23.0
	github.com/eclipse/paho.mqtt.golang v1.5.1
	github.com/go-zeromq/zmq4 v0.17.0
	github.com/plgd-dev/go-coap/v3 v3.4.0
	github.com/rabbitmq/amqp091-go v1.16.0
)

require (
	github.com/dsnet/golib/memfile v1.0.0 // indirect
	github.com/go-zeromq/goczmq/v4 v4.2.2 // indirect
	github.com/gorilla/websocket v1.5.3 // indirect
	github.com/pion/dtls/v3 v3.0.6 // indirect
	github.com/pion/logging v0.2.3 // indirect
	github.com/pion/transport/v3 v3.0.7 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/crypto v0.42.0 // indirect
	golang.org/x/exp v0.0.0-20240904232852-e7e105dedf7e // indirect
	golang.org/x/net v0.44.0 // indirect
	golang.org/x/sync v0.17.0 // indirect
	golang.org/x/sys v0.36.0 // indirect
	golang.org/x/text v0.29.0 // indirect
)
