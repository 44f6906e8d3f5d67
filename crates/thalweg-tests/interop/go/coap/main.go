// go-coap as a puppet (see ../../README.md): CoAP over UDP and TCP.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/message/pool"
	"github.com/plgd-dev/go-coap/v3/mux"
	"github.com/plgd-dev/go-coap/v3/tcp"
	"github.com/plgd-dev/go-coap/v3/udp"

	"thalweg.invalid/interop/puppet"
)

type command struct {
	Host          string     `json:"host"`
	Port          int        `json:"port"`
	Transport     string     `json:"transport"`
	Method        string     `json:"method"`
	Path          []string   `json:"path"`
	Query         []string   `json:"query"`
	Payload       puppet.Hex `json:"payload"`
	ContentFormat *uint16    `json:"content_format"`
	Accept        *uint16    `json:"accept"`
	Confirmable   *bool      `json:"confirmable"`
	Observation   string     `json:"observation"`
}

var methods = map[string]codes.Code{
	"GET": codes.GET, "POST": codes.POST, "PUT": codes.PUT, "DELETE": codes.DELETE,
}

type observation interface {
	Cancel(ctx context.Context, opts ...message.Option) error
}

type peer struct {
	name         string
	connection   mux.Conn
	one          sync.Mutex
	observations map[string]observation
}

func main() {
	puppet.Serve(func(name string) func(string, json.RawMessage) (puppet.Fields, error) {
		p := &peer{name: name, observations: map[string]observation{}}
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
	case "request":
		return p.request(c)
	case "observe":
		return p.observe(c)
	case "end":
		return nil, p.end(c)
	case "disconnect":
		return nil, p.connection.Close()
	}
	return nil, errors.New("unknown command " + verb)
}

func (p *peer) connect(c command) (err error) {
	address := fmt.Sprintf("%s:%d", c.Host, c.Port)
	if c.Transport == "tcp" {
		p.connection, err = tcp.Dial(address)
	} else {
		p.connection, err = udp.Dial(address)
	}
	return err
}

// fill makes a request of a command. The library's own setters of a path leave out empty levels.
func (p *peer) fill(ctx context.Context, c command) (*pool.Message, error) {
	request := p.connection.AcquireMessage(ctx)
	token, err := message.GetToken()
	if err != nil {
		return nil, err
	}
	request.SetToken(token)
	request.SetCode(methods[c.Method])
	if c.Confirmable != nil && !*c.Confirmable {
		request.SetType(message.NonConfirmable)
	}
	for _, level := range c.Path {
		request.AddOptionString(message.URIPath, level)
	}
	for _, query := range c.Query {
		request.AddOptionString(message.URIQuery, query)
	}
	if c.ContentFormat != nil {
		request.SetContentFormat(message.MediaType(*c.ContentFormat))
	}
	if c.Accept != nil {
		request.SetAccept(message.MediaType(*c.Accept))
	}
	if len(c.Payload) > 0 {
		request.SetBody(bytes.NewReader(c.Payload))
	}
	return request, nil
}

func (p *peer) request(c command) (puppet.Fields, error) {
	patience, stop := context.WithTimeout(context.Background(), puppet.Patience)
	defer stop()
	request, err := p.fill(patience, c)
	if err != nil {
		return nil, err
	}
	response, err := p.connection.Do(request)
	if err != nil {
		return nil, err
	}
	return told(response)
}

func (p *peer) observe(c command) (puppet.Fields, error) {
	patience, stop := context.WithTimeout(context.Background(), puppet.Patience)
	defer stop()
	c.Method = "GET"
	request, err := p.fill(patience, c)
	if err != nil {
		return nil, err
	}
	request.SetObserve(0)
	// The library hands the first answer to the same function as all others.
	first := make(chan puppet.Fields, 1)
	follow := func(notification *pool.Message) {
		fields, err := told(notification)
		if err != nil {
			fields = puppet.Fields{"text": err.Error()}
		}
		select {
		case first <- fields:
		default:
			fields["observation"] = c.Observation
			puppet.Event("message", p.name, fields)
		}
	}
	started, err := p.connection.DoObserve(request, follow)
	if err != nil {
		return nil, err
	}
	p.one.Lock()
	p.observations[c.Observation] = started
	p.one.Unlock()
	select {
	case fields := <-first:
		// Whatever comes from now on is an event.
		first <- nil
		return fields, nil
	case <-patience.Done():
		return nil, patience.Err()
	}
}

func (p *peer) end(c command) error {
	patience, stop := context.WithTimeout(context.Background(), puppet.Patience)
	defer stop()
	p.one.Lock()
	started := p.observations[c.Observation]
	delete(p.observations, c.Observation)
	p.one.Unlock()
	return started.Cancel(patience)
}

func told(response *pool.Message) (puppet.Fields, error) {
	body, err := response.ReadBody()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	code := uint8(response.Code())
	fields := puppet.Fields{"code": fmt.Sprintf("%d.%02d", code>>5, code&31), "payload": puppet.Hex(body)}
	if format, err := response.ContentFormat(); err == nil {
		fields["content_format"] = int(format)
	}
	if age, err := response.GetOptionUint32(message.MaxAge); err == nil {
		fields["max_age"] = age
	}
	if tag, err := response.ETag(); err == nil {
		fields["etag"] = puppet.Hex(tag)
	}
	if sequence, err := response.Observe(); err == nil {
		fields["sequence"] = sequence
	}
	return fields, nil
}
