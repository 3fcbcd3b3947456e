package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// What losses does.
const (
	lossEvery = 2 * time.Millisecond // a packet
	lossAfter = time.Second          // how long packets are sent on after something has happened
	lossNodes = 20                   // nodes that are added
)

// losses counts packets from pod to pod across nodes that get no answer while the agent of one node is killed and comes back, is ended
// for an upgrade and comes back as another program, and while nodes are added.
func (b *flowBench) losses(ctx context.Context, mode string) error {
	if err := errors.Join(b.clean("pa"), b.clean("pb")); err != nil {
		return err
	}
	defer b.stopAgents()
	if err := b.agents(ctx, mode); err != nil {
		return err
	}
	upgraded := filepath.Join(b.dir, "porthole-upgraded")
	if err := copyProgram(filepath.Join(b.o.bin, "porthole"), upgraded); err != nil {
		return err
	}

	for _, part := range []struct {
		name string
		do   func() error
	}{
		{"restart", func() error { return b.again(ctx, mode, syscall.SIGKILL, "porthole") }},
		{"upgrade", func() error { return b.again(ctx, mode, syscall.SIGTERM, upgraded) }},
		{"nodes added", func() error { return b.addSome(ctx, mode) }},
	} {
		sent, lost, err := b.lost(ctx, part.do)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		good := lost == 0
		print(figure{Name: "routes." + mode + ".lost." + part.name, Unit: "packets", Ours: lost, OK: &good, Note: fmt.Sprintf("of %d, one every %s; 0 is the target", sent, lossEvery)})
	}
	return nil
}

// again ends the agent of the first node and starts a program as the next one.
func (b *flowBench) again(ctx context.Context, mode string, signal syscall.Signal, program string) error {
	if err := b.running[0].Process.Signal(signal); err != nil {
		return err
	}
	_ = b.running[0].Wait() // it was killed
	cmd, err := b.porthole(flowNodes[0].node, program, mode)
	if err != nil {
		return err
	}
	b.running[0] = cmd
	return b.ready(ctx, flowNodes[0].node, 1)
}

// addSome adds nodes, and waits until the first node has routes to them. With bgp nobody announces their ranges.
func (b *flowBench) addSome(ctx context.Context, mode string) error {
	for i := range lossNodes {
		if err := b.makeNode(ctx, fmt.Sprintf("sim-%04d", i), simAddr(i), i, mode); err != nil {
			return err
		}
	}
	if mode == "bgp" {
		return nil
	}
	return b.ready(ctx, flowNodes[0].node, lossNodes+1)
}

// lost sends packets from the first pod to the second and back while do runs and for a while after.
func (b *flowBench) lost(ctx context.Context, do func() error) (sent, lost int, err error) {
	client, stop, err := b.echo()
	if err != nil {
		return 0, 0, err
	}
	defer stop()
	var answers atomic.Int64
	var reading sync.WaitGroup
	reading.Go(func() {
		for data := make([]byte, 8); ; {
			if _, err := client.Read(data); err != nil {
				return
			}
			answers.Add(1)
		}
	})

	done := make(chan error, 1)
	go func() {
		err := do()
		select {
		case <-ctx.Done():
		case <-time.After(lossAfter):
		}
		done <- err
	}()
	tick := time.NewTicker(lossEvery)
	defer tick.Stop()
	for running := true; running; {
		select {
		case err = <-done:
			running = false
		case <-tick.C:
			sent++
			if _, err := client.Write(binary.BigEndian.AppendUint64(nil, uint64(sent))); err != nil {
				sent-- // counted by the kernel's answer to an earlier one: it is one more that was not sent
				lost++
			}
		}
	}

	_ = client.SetReadDeadline(time.Now().Add(300 * time.Millisecond)) // for the last answers
	reading.Wait()
	return sent, lost + sent - int(answers.Load()), err
}

// echo opens a UDP socket in the first pod, connected to one in the second that sends each packet back.
func (b *flowBench) echo() (client *net.UDPConn, stop func(), err error) {
	addr := &net.UDPAddr{IP: net.ParseIP(flowNodes[1].podAddr), Port: 5002}
	var server *net.UDPConn
	err = platform.InNetns(platform.NetnsPath(b.netns("b")), func() (err error) {
		server, err = net.ListenUDP("udp4", addr)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	go func() {
		for data := make([]byte, 8); ; {
			n, from, err := server.ReadFromUDP(data)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDP(data[:n], from) // one that cannot be sent is lost
		}
	}()

	err = platform.InNetns(platform.NetnsPath(b.netns("a")), func() (err error) {
		client, err = net.DialUDP("udp4", nil, addr)
		return err
	})
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	return client, func() { client.Close(); server.Close() }, nil
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
