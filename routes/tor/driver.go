package tor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Driver changes a router through its own command.
type Driver struct {
	format  string
	command []string // the router's command and what it needs to reach the router
}

// drivers are the formats of routers that can be changed, with their commands.
var drivers = []struct{ format, command string }{{"frr", "vtysh"}, {"ip", "ip"}}

// Drivers returns the formats that NewDriver takes.
func Drivers() []string {
	var names []string
	for _, d := range drivers {
		names = append(names, d.format)
	}
	return names
}

// NewDriver returns the driver of a router: "frr" works with FRR's vtysh, "ip" with iproute2. command is how that is
// called, for example "vtysh --vty_socket /run/frr" or "ip -n router"; empty: "vtysh" or "ip".
func NewDriver(format, command string) (*Driver, error) {
	for _, d := range drivers {
		if d.format != format {
			continue
		}
		if command == "" {
			command = d.command
		}
		return &Driver{format: format, command: strings.Fields(command)}, nil
	}
	return nil, fmt.Errorf("%q is not known; known: %s", format, strings.Join(Drivers(), ", "))
}

// Show implements driver.
func (d *Driver) Show(ctx context.Context) ([]Running, error) {
	calls := [][]string{{"-c", "show ip route json", "-c", "show ipv6 route json"}}
	if d.format == "ip" {
		calls = [][]string{{"-j", "route"}, {"-j", "-6", "route"}}
	}
	var all bytes.Buffer
	for _, args := range calls {
		out, err := d.run(ctx, args)
		if err != nil {
			return nil, err
		}
		all.WriteString(out)
	}
	return ReadRunning(d.format, &all)
}

// Change implements driver. FRR's staticd keeps several next hops beside each other, so that each wrong one is
// removed, after the right one was added. iproute2's replace does both in one step.
func (d *Driver) Change(ctx context.Context, c RouterChange) error {
	var err error
	switch {
	case d.format == "frr":
		args := []string{"-c", "configure terminal"}
		if c.NextHop.IsValid() {
			args = append(args, "-c", fmt.Sprintf("%s route %s %s", family(c.Dst), c.Dst, c.NextHop))
		}
		for _, hop := range c.Without {
			args = append(args, "-c", fmt.Sprintf("no %s route %s %s", family(c.Dst), c.Dst, hop))
		}
		_, err = d.run(ctx, args)
	case c.NextHop.IsValid():
		_, err = d.run(ctx, d.ip(c, "replace", "via", c.NextHop.String()))
	default:
		_, err = d.run(ctx, d.ip(c, "del"))
	}
	return err
}

func (d *Driver) ip(c RouterChange, verb string, rest ...string) []string {
	args := []string{"route", verb, c.Dst.String()}
	if c.Dst.Addr().Is6() {
		args = slices.Insert(args, 0, "-6")
	}
	return append(append(args, rest...), "proto", "static")
}

// run calls the router's command for at most 10 s. FRR's reports mistakes in lines that begin with "%".
func (d *Driver) run(ctx context.Context, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	args = slices.Concat(d.command[1:], args)
	cmd := exec.CommandContext(ctx, d.command[0], args...)
	var out, complaint bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &complaint
	cmd.WaitDelay = time.Second

	err := cmd.Run()
	text := strings.TrimSpace(out.String())
	if err == nil && d.format == "frr" && strings.HasPrefix(text, "%") {
		err = errors.New(text)
	}
	if err != nil {
		return "", fmt.Errorf("`%s %s` on the router: %w: %s", d.command[0], strings.Join(args, " "), err,
			bytes.TrimSpace(complaint.Bytes()))
	}
	return out.String(), nil
}
