package routes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/node/routes"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/tor"
)

// printRouter prints the routes of a router. It prints those that are right also if some must not exist, and then returns an error that
// names them.
func printRouter(c *cobra.Command, f flags) error {
	if !slices.Contains(tor.Formats(), f.printRouter) {
		_, err := tor.Export(f.printRouter, nil)
		return fmt.Errorf("--print-router %w", err)
	}
	if f.kubeconfig == "" {
		return errors.New("--kubeconfig is required: the file with the API server's address and credentials that may list nodes")
	}
	wanted, err := routes.RouterRoutes(c.Context(), f.kubeconfig)
	if err != nil {
		return err
	}

	text, err := tor.Export(f.printRouter, wanted)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(c.OutOrStdout(), text); err != nil {
		return err
	}
	return refused(wanted)
}

// refused returns an error for each route that must not exist.
func refused(wanted []table.Wanted) error {
	var errs []error
	for _, w := range wanted {
		if w.State == table.Refused {
			errs = append(errs, fmt.Errorf("no route to %s of node %s: %s", w.Dst, w.Node, w.Reason))
		}
	}
	return errors.Join(errs...)
}
