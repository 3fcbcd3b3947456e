package fit

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Print writes the advice for people.
func (a Advice) Print(out io.Writer) error {
	var b strings.Builder
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s\n", title)
		for _, l := range lines {
			fmt.Fprintf(&b, "  %s\n", l)
		}
	}

	list("Found:", a.Found)
	if a.Mode != "" {
		fmt.Fprintf(&b, "Mode %s fits: %s.\n  porthole routes --kubeconfig=FILE %s\n", a.Mode, a.Why,
			strings.Join(a.Flags, " "))
	} else {
		fmt.Fprintf(&b, "No mode fits: %s.\n", a.Why)
	}
	if a.BGP != nil {
		data, err := json.Marshal(a.BGP)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "  with this file for --bgp-config:\n  %s\n", data)
	}
	list("To change:", a.Change)
	list("To know:", a.Notes)

	var unread []string
	for _, u := range a.Unread {
		unread = append(unread, u.What+": "+u.Why)
	}
	list("Could not be read, so that something may be missing above:", unread)
	_, err := io.WriteString(out, b.String())
	return err
}
