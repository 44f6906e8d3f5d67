// go-zeromq/zmq4 as a puppet (see ../../README.md): a PUB and a SUB socket, without libzmq.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"

	"thalweg.invalid/interop/puppet"
)

type command struct {
	Host   string       `json:"host"`
	Port   int          `json:"port"`
	Prefix puppet.Hex   `json:"prefix"`
	Frames []puppet.Hex `json:"frames"`
}

type peer struct {
	name     string
	pub, sub zmq4.Socket
	one      sync.Mutex
	marks    int
	heard    chan string
}

func main() {
	puppet.Serve(func(name string) func(string, json.RawMessage) (puppet.Fields, error) {
		p := &peer{name: name, heard: make(chan string, 1000)}
		return p.obey
	})
}

func (p *peer) obey(verb string, line json.RawMessage) (puppet.Fields, error) {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	p.one.Lock()
	defer p.one.Unlock()
	switch verb {
	case "connect":
		return nil, p.connect(c)
	case "subscribe":
		if err := p.sub.SetOption(zmq4.OptionSubscribe, string(c.Prefix)); err != nil {
			return nil, err
		}
		return nil, p.meet()
	case "send":
		frames := make([][]byte, len(c.Frames))
		for i, frame := range c.Frames {
			frames[i] = frame
		}
		return nil, p.pub.SendMulti(zmq4.NewMsgFrom(frames...))
	case "disconnect":
		return nil, errors.Join(p.pub.Close(), p.sub.Close())
	}
	return nil, errors.New("unknown command " + verb)
}

func (p *peer) connect(c command) error {
	address := fmt.Sprintf("tcp://%s:%d", c.Host, c.Port)
	p.pub, p.sub = zmq4.NewPub(context.Background()), zmq4.NewSub(context.Background())
	for _, socket := range []zmq4.Socket{p.pub, p.sub} {
		if err := socket.Dial(address); err != nil {
			return err
		}
	}
	go p.listen()
	return p.meet()
}

func (p *peer) listen() {
	for {
		message, err := p.sub.Recv()
		if err != nil {
			return
		}
		if name := string(message.Frames[0]); strings.HasPrefix(name, "$mark/") {
			p.heard <- name
			continue
		}
		frames := make([]puppet.Hex, len(message.Frames))
		for i, frame := range message.Frames {
			frames[i] = frame
		}
		puppet.Event("message", p.name, puppet.Fields{"frames": frames})
	}
}

// meet waits until what PUB sends reaches SUB: nothing else says that subscriptions are in force.
func (p *peer) meet() error {
	p.marks++
	mark := fmt.Sprintf("$mark/%s/%d/", p.name, p.marks)
	if err := p.sub.SetOption(zmq4.OptionSubscribe, mark); err != nil {
		return err
	}
	for end := time.Now().Add(puppet.Patience); time.Now().Before(end); {
		if err := p.pub.SendMulti(zmq4.NewMsgFrom([]byte(mark), nil)); err != nil {
			return err
		}
		select {
		case name := <-p.heard:
			if name == mark {
				return p.sub.SetOption(zmq4.OptionUnsubscribe, mark)
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
	return errors.New("no mark came back")
}
