package host

import (
	"fmt"
	"io"
	"text/tabwriter"

	"porthole.dev/porthole/emulator/hnsd/serve"
)

// printRules prints the rules of one endpoint as a table.
func printRules(out io.Writer, r serve.EndpointRules) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "ENDPOINT\t%s\t%s\n", r.Endpoint, r.Name)
	fmt.Fprintf(w, "NETWORK\t%s\t%s (%s)\n", r.Network, r.NetworkName, r.Type)
	for _, a := range r.Addresses {
		fmt.Fprintf(w, "ADDRESS\t%s\t%s\n", a, dash(r.MAC))
	}
	if r.Port != "" {
		fmt.Fprintf(w, "PORT\t%s\t%s\n", r.Port, r.Netns)
	}
	if s := r.Stats; s != nil {
		fmt.Fprintf(w, "ALL PACKETS\t%d sent, %d bytes\t%d received, %d bytes; %d dropped\n", s.PacketsSent,
			s.BytesSent, s.PacketsReceived, s.BytesReceived, s.Dropped)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "NOTE\t%s\n", n)
	}
	if err := w.Flush(); err != nil || len(r.Rules) == 0 {
		return err
	}

	fmt.Fprintln(w, "\nLAYER\tWAY\tMATCH\tACTION\tPACKETS\tBYTES\tCOUNTS")
	// Rules that HNS has and the kernel lacks make the command fail, after the table.
	missing := 0
	for _, rule := range r.Rules {
		of := "this endpoint"
		if rule.Shared {
			of = "the host"
		}
		if rule.Missing {
			of = "NOT IN THE KERNEL"
			missing++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", rule.Layer, rule.Way, rule.Match, rule.Action, rule.Packets,
			rule.Bytes, of)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out,
		"\nA rule counts packets that begin a connection; those that follow pass without a look at the rules.")
	if missing > 0 {
		return fmt.Errorf("%d rules of the endpoint are not in the kernel: `verify` names the differences", missing)
	}
	return nil
}
