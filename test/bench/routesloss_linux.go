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
	lossPort  = 5002
)

// lossNobody is an address in the pod range of the second node that no pod has.
const lossNobody = "10.152.1.99"

// losses prints how many packets between pods on two nodes are lost in each of three events: the agent of one node is
// killed and started again, it is ended and started again from another file as in an upgrade, and nodes are added to
// the cluster. A packet counts as lost if no answer to it comes back.
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

	// Before anything is measured, packets to nobody must count as lost: this shows that the method
	// can see loss.
	sent, lost, err := b.lost(ctx, lossNobody, func() error { return nil })
	if err != nil {
		return err
	}
	if sent == 0 || lost < sent {
		return fmt.Errorf("of %d packets to an address without a pod %d count as lost, want all", sent, lost)
	}

	for _, part := range []struct {
		name string
		do   func() error
	}{
		{"restart", func() error { return b.again(ctx, mode, syscall.SIGKILL, "porthole") }},
		{"upgrade", func() error { return b.again(ctx, mode, syscall.SIGTERM, upgraded) }},
		{"nodes added", func() error { return b.addSome(ctx, mode) }},
	} {
		sent, lost, err := b.lost(ctx, flowNodes[1].podAddr, part.do)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		good := lost == 0
		print(figure{Name: "routes." + mode + ".lost." + part.name, Unit: "packets", Ours: lost, OK: &good,
			Note: fmt.Sprintf("of %d, one every %s; 0 is the target", sent, lossEvery)})
	}
	return nil
}

// again ends the agent of the first node with a signal, starts program in its place, and waits until that has the
// routes.
func (b *flowBench) again(ctx context.Context, mode string, signal syscall.Signal, program string) error {
	if err := b.running[0].Process.Signal(signal); err != nil {
		return err
	}
	_ = b.running[0].Wait() // the error is the signal
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

// lost sends packets from the first pod to an address, where the second pod's server sends them back, while do runs
// and for lossAfter after it. It returns how many were tried and how many of them got no answer.
// Packets of 8 bytes hold their number; answers are counted and not matched.
func (b *flowBench) lost(ctx context.Context, to string, do func() error) (sent, lost int, err error) {
	client, stop, err := b.echo(to)
	if err != nil {
		return 0, 0, err
	}
	defer stop()
	var answers atomic.Int64
	var reading sync.WaitGroup
	reading.Go(func() {
		for data := make([]byte, 8); ; {
			switch _, err := client.Read(data); {
			case err == nil:
				answers.Add(1)
			case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
				return
			} // other errors are ICMP's answers to single packets
		}
	})

	// What happens is in a goroutine of its own, so that packets keep their pace meanwhile.
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
			// A packet that the kernel refuses to send is lost like any other.
			_, _ = client.Write(binary.BigEndian.AppendUint64(nil, uint64(sent)))
		}
	}

	_ = client.SetReadDeadline(time.Now().Add(300 * time.Millisecond)) // for the last answers
	reading.Wait()
	return sent, sent - int(answers.Load()), err
}

// echo starts a server in the second pod that sends each packet back, and opens a UDP socket in the first pod to an
// address at its port.
// stop closes both; the server ends with its socket.
func (b *flowBench) echo(to string) (client *net.UDPConn, stop func(), err error) {
	var server *net.UDPConn
	err = platform.InNetns(platform.NetnsPath(b.netns("b")), func() (err error) {
		server, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(flowNodes[1].podAddr), Port: lossPort})
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
		client, err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.ParseIP(to), Port: lossPort})
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
