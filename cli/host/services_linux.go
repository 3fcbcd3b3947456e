package host

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/scm"
)

// servicesCommand sets faults before it lists, so that the list is that of a host with them.
func servicesCommand() *cobra.Command {
	var o common
	var faults []string
	c := &cobra.Command{
		Use:   "services NAME",
		Short: "List the Windows services of a host",
		Long: `Lists the Windows services of a host from its service manager: whether they run, how they ended, and how often they failed.
Programs on the host install and start services, for example "porthole service install" or sc.`,
		Example: "  porthole host services h1\n  porthole host run h1 -- 'C:\\k\\porthole.exe' service install routes -- --kubeconfig 'C:\\k\\config' …\n  porthole host services h1 --fault create:kubelet:1072:2",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			h, err := o.find(args[0])
			if err != nil {
				return err
			}
			for _, f := range faults {
				if err := host.Fault(h, f); err != nil {
					return err
				}
			}
			list, err := h.Services()
			if err != nil {
				return err
			}
			if o.output == "json" {
				return printJSON(c.OutOrStdout(), list)
			}

			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tSTATE\tSTART\tPID\tEXIT\tFAILURES\tCOMMAND")
			for _, l := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", l.Name, l.Status.State, startName(l.Config),
					l.Status.PID, l.Status.Exit, l.Failures, l.Path)
			}
			return w.Flush()
		},
	}
	c.Flags().StringArrayVar(&faults, "fault", nil,
		"FUNCTION:SERVICE:CODE[:TIMES]: the next calls of programs to the service manager fail with this error of Windows, such as\n"+
			"create:kubelet:1072:2; functions are create, open, change, change2, delete, start and control; * is any service. May be repeated")
	o.flags(c, true)
	return c
}

func startName(c scm.Config) string {
	switch {
	case c.Start == scm.StartDisabled:
		return "disabled"
	case c.Start == scm.StartManual:
		return "manual"
	case c.Delayed:
		return "delayed"
	}
	return "automatic"
}

// eventsCommand prints a line for each entry; line breaks in texts become blanks.
func eventsCommand() *cobra.Command {
	var o common
	c := &cobra.Command{
		Use:   "events NAME",
		Short: "Print the Windows event log of a host",
		Long: `Prints the Windows event log of a host, oldest entry first: the entries of its service manager (log System) and of its services
(log Application). They are kept when the host reboots.`,
		Example: "  porthole host events h1\n  porthole host events win01 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			h, err := o.find(args[0])
			if err != nil {
				return err
			}
			events, err := h.Events()
			if err != nil {
				return err
			}
			if o.output == "json" {
				return printJSON(c.OutOrStdout(), events)
			}

			for _, e := range events {
				fmt.Fprintf(c.OutOrStdout(), "%s  %-11s  %-11s  %s %d: %s\n", e.Time.Format(time.DateTime), e.Log,
					e.Level, e.Source, e.ID,
					strings.ReplaceAll(e.Text, "\n", " "))
			}
			return nil
		},
	}
	o.flags(c, true)
	return c
}
