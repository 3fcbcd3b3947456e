package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/emulator/hnsd/serve"
)

// hnsCommand asks the control interface of the host's HNS, and so works on hosts of a cluster too.
func hnsCommand() *cobra.Command {
	var o common
	c := &cobra.Command{
		Use:   "hns NAME dump|rules|stats|verify|fault|scenario|latency|service|lose|repair|pool|dns",
		Short: "Look into the Host Networking Service of a host",
		Long: `Looks into the Host Networking Service of a host.

  dump              all objects, by kind
  rules ENDPOINT    what happens to the packets of one endpoint: its ACLs, load balancers, routes, outbound NAT and port mappings, in the
                    order in which packets meet them, with counters; ENDPOINT is an id or the beginning of one, a name or an address
  stats             calls since its start, by function
  stats reset       start counting anew
  verify            differences between its objects and the kernel's network; exit code 1 if there are any` + spoilHelp(),
		Example: "  porthole host hns win01 rules 10.244.1.7\n  porthole host hns win01 stats\n  porthole host hns win01 dump -o json",
		Args:    cobra.RangeArgs(2, 6),
		RunE: func(c *cobra.Command, args []string) error {
			h, err := o.find(args[0])
			if err != nil {
				return err
			}
			call := hnsCall{call: h.HNS, out: c.OutOrStdout(), in: c.InOrStdin(), json: o.output == "json"}
			return call.do(c.Context(), args[1], args[2:])
		},
	}

	o.flags(c, true)
	return c
}

// hnsCall carries out one command. call is host.Host's HNS.
type hnsCall struct {
	call func(ctx context.Context, method, path string, body []byte) ([]byte, error)
	out  io.Writer
	in   io.Reader
	json bool
}

// do carries out a verb with the words that follow it. Verbs that only look are here; those that change what HNS does
// are in spoil.
func (h hnsCall) do(ctx context.Context, verb string, rest []string) error {
	switch {
	case verb == "dump" && len(rest) == 0:
		return ask(ctx, h, "GET /dump", nil, printDump)
	case verb == "rules" && len(rest) == 1:
		return ask(ctx, h, "GET /rules/"+url.PathEscape(rest[0]), nil, printRules)
	case verb == "stats" && len(rest) == 0:
		return ask(ctx, h, "GET /stats", nil, printStats)
	case verb == "stats" && len(rest) == 1 && rest[0] == "reset":
		_, err := h.call(ctx, "POST", "/stats/reset", nil)
		return err
	case verb == "verify" && len(rest) == 0:
		return ask(ctx, h, "POST /verify", nil, printDrift)
	case verb == "fault" && len(rest) == 0:
		return ask(ctx, h, "GET /faults", nil, printFaults)
	case verb == "fault" && len(rest) == 1:
		rules, err := h.readRules(rest[0])
		if err != nil {
			return fmt.Errorf("reading fault rules: %w", err)
		}
		return ask(ctx, h, "POST /faults", rules, printFaults)
	}

	if known, err := h.spoil(ctx, verb, rest); known {
		return err
	}
	return fmt.Errorf(
		"hns %s: known are dump, rules ENDPOINT, stats, stats reset, verify, fault, fault FILE, fault none, scenario, latency, service, lose, repair, pool, dns", strings.Join(append([]string{verb}, rest...), " "))
}

// readRules gives the text of the rules; it is checked by HNS.
func (h hnsCall) readRules(file string) ([]byte, error) {
	switch file {
	case "none":
		return []byte("[]"), nil
	case "-":
		return io.ReadAll(h.in)
	}
	return os.ReadFile(file)
}

// ask makes a call, such as "GET /dump", and prints its answer, as it is or through print. Either way print reports
// whether it is a good one.
func ask[T any](ctx context.Context, h hnsCall, question string, body []byte, print func(io.Writer, T) error) error {
	method, path, _ := strings.Cut(question, " ")
	data, err := h.call(ctx, method, path, body)
	if err != nil {
		return err
	}
	// The answer is decoded twice: for print, and with all its fields for JSON.
	var answer T
	if err := json.Unmarshal(data, &answer); err != nil {
		return fmt.Errorf("reading the answer of HNS: %w", err)
	}
	if !h.json {
		return print(h.out, answer)
	}
	var whole any
	if err := json.Unmarshal(data, &whole); err != nil {
		return fmt.Errorf("reading the answer of HNS: %w", err)
	}
	if err := printJSON(h.out, whole); err != nil {
		return err
	}
	return print(io.Discard, answer)
}

// object is what the table shows of one.
type object struct {
	ID   string
	Name string
	Type string
	HostComputeNetwork,
	HostComputeNamespace string
	IpConfigurations []struct{ IpAddress string }
	Ipams            []struct {
		Subnets []struct{ IpAddressPrefix string }
	}
	FrontendVIPs []string
	PortMappings []struct {
		Protocol     int
		ExternalPort int
		InternalPort int
	}
	HostComputeEndpoints []string
	DestinationPrefix    string
	NextHop              string
}

// noNamespace is what an endpoint says that is attached nowhere.
const noNamespace = "00000000-0000-0000-0000-000000000000"

// objects is the answer of /dump, with what the tables show.
type objects struct {
	Version                                                string
	Networks, Endpoints, Namespaces, LoadBalancers, Routes []object
	Netns                                                  map[string]string
}

// printDump prints one table for each kind of object that HNS has. Kinds without objects are left out.
func printDump(out io.Writer, d objects) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "HNS %s\n", d.Version)
	section := func(title string, list []object, row func(object) []string) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s\n", title)
		for _, o := range list {
			fmt.Fprintf(w, "%s\t%s\n", o.ID, strings.Join(row(o), "\t"))
		}
	}

	section("NETWORK\tNAME\tTYPE\tSUBNETS", d.Networks, func(o object) []string {
		var subnets []string
		for _, i := range o.Ipams {
			for _, s := range i.Subnets {
				subnets = append(subnets, s.IpAddressPrefix)
			}
		}
		return []string{dash(o.Name), o.Type, dash(strings.Join(subnets, ","))}
	})

	section("ENDPOINT\tNAME\tADDRESSES\tNETWORK\tNAMESPACE", d.Endpoints, func(o object) []string {
		var addrs []string
		for _, i := range o.IpConfigurations {
			addrs = append(addrs, i.IpAddress)
		}
		return []string{dash(o.Name), dash(strings.Join(addrs, ",")), o.HostComputeNetwork,
			dash(strings.Replace(o.HostComputeNamespace, noNamespace, "", 1))}
	})

	section("NAMESPACE\tTYPE\tLINUX NETWORK NAMESPACE", d.Namespaces, func(o object) []string {
		return []string{o.Type, dash(d.Netns[o.ID])}
	})
	section("LOAD BALANCER\tFRONTENDS\tPORTS\tBACKENDS", d.LoadBalancers, func(o object) []string {
		var ports []string
		for _, p := range o.PortMappings {
			ports = append(ports, fmt.Sprintf("%s %d->%d", protocol(p.Protocol), p.ExternalPort, p.InternalPort))
		}
		return []string{dash(strings.Join(o.FrontendVIPs, ",")), strings.Join(ports, ","),
			fmt.Sprint(len(o.HostComputeEndpoints))}
	})

	section("ROUTE\tDESTINATION\tNEXT HOP", d.Routes, func(o object) []string {
		return []string{dash(o.DestinationPrefix), dash(o.NextHop)}
	})
	return w.Flush()
}

// protocol names the IP protocols that load balancers have; others are shown by number.
func protocol(number int) string {
	switch number {
	case 6:
		return "tcp"
	case 17:
		return "udp"
	}
	return fmt.Sprint(number)
}

// dash stands for an empty cell.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// printStats prints calls by name, and their sum.
func printStats(out io.Writer, s serve.Stats) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "CALL\tCOUNT\tFAILED")
	total := 0
	for _, name := range slices.Sorted(maps.Keys(s.Calls)) {
		fmt.Fprintf(w, "%s\t%d\t%d\n", name, s.Calls[name], s.Errors[name])
		total += s.Calls[name]
	}
	fmt.Fprintf(w, "\n%d calls, %d of them writes, %.3f s; %d handles open\n", total, s.Writes, s.Seconds, s.Handles)
	return w.Flush()
}

// drift is the answer of /verify.
type drift struct {
	Drift []struct{ ID, Text string }
}

// errDrift ends the command with exit code 1: the differences were printed.
type errDrift int

// The number is what the command ends with, after the lines.
func (e errDrift) Error() string {
	return fmt.Sprintf("the kernel's network differs from HNS in %d places", int(e))
}

func printDrift(out io.Writer, d drift) error {
	if len(d.Drift) == 0 {
		_, err := fmt.Fprintln(out, "the kernel's network is as HNS says")
		return err
	}
	for _, line := range d.Drift {
		fmt.Fprintln(out, strings.TrimSpace(line.ID+" "+line.Text))
	}
	return errDrift(len(d.Drift))
}

// printFaults prints the rules in the order in which they are tried.
func printFaults(out io.Writer, rules []serve.Fault) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "FUNCTION\tPROGRAM\tMATCH\tACTION\tCODE\tDELAY\tTURN\tSEEN\tHITS")
	for _, f := range rules {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%#x\t%d ms\t%s\t%d\t%d\n", f.Function, dash(f.Program), dash(f.Match),
			dash(f.Action), f.Code, f.Delay,
			dash(turn(f)), f.Seen, f.Hits)
	}
	return w.Flush()
}

// turn words which of the calls are meant.
func turn(f serve.Fault) string {
	var words []string
	if f.Nth > 0 {
		words = append(words, fmt.Sprintf("call %d", f.Nth))
	}
	if f.Probability > 0 {
		words = append(words, fmt.Sprintf("%g of them", f.Probability))
	}
	if f.Times > 0 {
		words = append(words, fmt.Sprintf("%d times", f.Times))
	}
	if f.ForMs > 0 {
		words = append(words, fmt.Sprintf("for %d ms", f.ForMs))
	}
	return strings.Join(words, ", ")
}
