package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// resolve asks the system's own resolver, and prints an address in each line.
func resolve(args []string) error {
	if len(args) == 0 {
		return errors.New("resolve needs a name")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, args[0])
	if err != nil {
		return err
	}
	for _, a := range addresses {
		fmt.Println(a)
	}
	return nil
}

// addresses prints the addresses of all interfaces of the container.
func addresses([]string) error {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range list {
		fmt.Println(a)
	}
	return nil
}

// dnsUDP asks one server for the A records of a name, over UDP only, and prints them. With a number it asks so often,
// each time from a port of its own.
func dnsUDP(args []string) error {
	if len(args) < 2 {
		return errors.New("dnsudp needs a server and a name")
	}
	server, name := args[0], args[1]
	if _, _, err := net.SplitHostPort(server); err != nil {
		server = net.JoinHostPort(server, "53")
	}
	// A name with a dot at its end is asked for as it is, without search suffixes.
	if name[len(name)-1] != '.' {
		name += "."
	}
	question, err := dnsmessage.NewName(name)
	if err != nil {
		return fmt.Errorf("name %s: %w", name, err)
	}

	if len(args) > 2 {
		return many(args[2], func() (string, error) { return askDNS(server, question) })
	}
	answer, err := askDNS(server, question)
	if err == nil {
		fmt.Println(answer)
	}
	return err
}

// askDNS sends one query and returns the addresses in its answer, a line each.
func askDNS(server string, name dnsmessage.Name) (string, error) {
	id := uint16(rand.Uint32())
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := query.Pack()
	if err != nil {
		return "", err
	}
	raw, err := udpExchange(server, packed, 3*time.Second)
	if err != nil {
		return "", err
	}

	var answer dnsmessage.Message
	if err := answer.Unpack(raw); err != nil {
		return "", err
	}
	// A UDP packet that comes late may be the answer to an earlier query.
	if answer.ID != id {
		return "", fmt.Errorf("%s: answer to another question", name)
	}
	if answer.RCode != dnsmessage.RCodeSuccess {
		return "", fmt.Errorf("%s: %s", name, answer.RCode)
	}
	var addresses []string
	for _, a := range answer.Answers {
		if body, ok := a.Body.(*dnsmessage.AResource); ok {
			addresses = append(addresses, netip.AddrFrom4(body.A).String())
		}
	}
	return strings.Join(addresses, "\n"), nil
}
