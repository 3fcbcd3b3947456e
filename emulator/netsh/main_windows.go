// Command netsh implements the commands of Windows' netsh.exe for rules of the inbound firewall. Wine's netsh.exe
// reports success and does nothing. It keeps the rules in the registry, as Windows does, and sends them to the host's
// network service.
//
//	netsh advfirewall firewall add rule name=N dir=in action=allow|block [program=P] [protocol=TCP|UDP|any] [localport=80,90-99] [enable=yes|no]
//	netsh advfirewall firewall show rule name=N|all
//	netsh advfirewall firewall delete rule name=N|all
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/windows/registry"
	"k8s.io/apimachinery/pkg/util/uuid"

	"porthole.dev/porthole/emulator/firewall"
	"porthole.dev/porthole/emulator/wire"
)

// announceTimeout bounds the call of the host's network service.
const announceTimeout = 30 * time.Second

const rulesKey = `SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules`

// Errors with the texts of Windows' netsh.
var (
	errNoMatch = errors.New("No rules match the specified criteria.")
	errSyntax  = errors.New("A specified value is not valid.")
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Printf("\r\n%v\r\n\r\n", err)
		os.Exit(1)
	}
	fmt.Print("Ok.\r\n\r\n")
}

// run carries out one command of netsh, of which only rules of the firewall are known. Rules are values of the
// registry key where Windows keeps them; announce then tells the host's firewall.
func run(args []string) error {
	if len(args) < 5 || !strings.EqualFold(strings.Join(args[:2], " ")+" "+args[3], "advfirewall firewall rule") {
		return fmt.Errorf("The following command was not found: %s.", strings.Join(args, " "))
	}
	values := map[string]string{}
	for _, a := range args[4:] {
		name, value, ok := strings.Cut(a, "=")
		if !ok {
			return errSyntax
		}
		values[strings.ToLower(name)] = value
	}

	key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, rulesKey, registry.ALL_ACCESS)
	if err != nil {
		return err
	}
	defer key.Close()
	switch strings.ToLower(args[2]) {
	case "add":
		r, err := ruleOf(values)
		if err != nil {
			return err
		}
		if err := key.SetStringValue("{"+strings.ToUpper(string(uuid.NewUUID()))+"}", r.Text()); err != nil {
			return err
		}
		return announce(key)
	case "delete":
		found, err := each(key, values["name"], func(id string, _ firewall.Rule) error { return key.DeleteValue(id) })
		if err != nil {
			return err
		}
		fmt.Printf("\r\nDeleted %d rule(s).\r\n", found)
		return announce(key)
	case "show":
		_, err := each(key, values["name"], func(_ string, r firewall.Rule) error { show(r); return nil })
		return err
	}
	return errSyntax
}

// ruleOf makes a rule from the words of "add rule". It knows incoming rules and refuses, as netsh does, ports without a
// protocol.
func ruleOf(values map[string]string) (firewall.Rule, error) {
	r := firewall.Rule{Name: values["name"], Program: values["program"],
		Disabled: strings.EqualFold(values["enable"], "no"),
		Block:    strings.EqualFold(values["action"], "block")}
	known := []string{"name", "dir", "action", "program", "protocol", "localport", "enable", "profile", "description"}
	for name := range values {
		if !slices.Contains(known, name) {
			return r, errSyntax
		}
	}
	switch strings.ToLower(values["protocol"]) {
	case "", "any":
	case "tcp":
		r.Protocol = 6
	case "udp":
		r.Protocol = 17
	default:
		return r, errSyntax
	}
	if ports := values["localport"]; ports != "" && !strings.EqualFold(ports, "any") {
		r.Ports = strings.Split(ports, ",")
	}

	allowed := r.Block || strings.EqualFold(values["action"], "allow")
	_, _, err := firewall.Parse(r.Text())
	if r.Name == "" || !strings.EqualFold(values["dir"], "in") || !allowed || len(r.Ports) > 0 && r.Protocol == 0 ||
		err != nil {
		return r, errSyntax
	}
	return r, nil
}

// each calls do for the rules of a name, or for all rules if name is "all". It returns their number, and errNoMatch if
// there are none.
func each(key registry.Key, name string, do func(id string, r firewall.Rule) error) (n int, err error) {
	if name == "" {
		return 0, errSyntax
	}
	ids, err := key.ReadValueNames(0)
	if err != nil {
		return 0, err
	}

	for _, id := range ids {
		text, _, err := key.GetStringValue(id)
		if err != nil {
			return n, err
		}
		r, _, err := firewall.Parse(text)
		if err != nil || name != "all" && !strings.EqualFold(r.Name, name) {
			continue
		}
		n++
		if err := do(id, r); err != nil {
			return n, err
		}
	}
	if n == 0 {
		return 0, errNoMatch
	}
	return n, nil
}

// show prints a rule in netsh's layout. Lines without a value are left out.
func show(r firewall.Rule) {
	enabled, action := "Yes", "Allow"
	if r.Disabled {
		enabled = "No"
	}
	if r.Block {
		action = "Block"
	}
	fmt.Printf("\r\nRule Name: %28s%s\r\n%s\r\n", "", r.Name, strings.Repeat("-", 70))
	for _, line := range [][2]string{{"Enabled:", enabled}, {"Direction:", "In"}, {"Program:", r.Program},
		{"LocalPort:", strings.Join(r.Ports, ",")}, {"Action:", action}} {
		if line[1] != "" {
			fmt.Printf("%-38s%s\r\n", line[0], line[1])
		}
	}
}

// announce sends all rules to the host's network service. They are applied when it returns.
func announce(key registry.Key) error {
	ids, err := key.ReadValueNames(0)
	if err != nil {
		return err
	}
	texts := []string{}
	for _, id := range ids {
		text, _, err := key.GetStringValue(id)
		if err != nil {
			return err
		}
		texts = append(texts, text)
	}
	data, err := json.Marshal(texts)
	if err != nil {
		return err
	}

	tcp, err := net.DialTimeout("tcp4", wire.HNSAddress, announceTimeout)
	if err != nil {
		return err
	}
	defer tcp.Close()
	if err := tcp.SetDeadline(time.Now().Add(announceTimeout)); err != nil {
		return err
	}
	host, err := wire.NewConn(tcp, uint64(os.Getpid()), "netsh.exe")
	if err != nil {
		return err
	}
	_, _, err = host.Call(wire.Request{Op: wire.Firewall, Text: [3]string{string(data)}})
	return err
}
