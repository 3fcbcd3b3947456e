// Package hostclear holds the hidden command that runs before the wineserver of an emulated Windows host starts.
package hostclear

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/emulator/confine"
	hcsd "porthole.dev/porthole/emulator/hcsd/serve"
	"porthole.dev/porthole/emulator/wine"
)

// limit is how long killed programs may take to end: one that writes to a slow disk ends when it has written.
const limit = 20 * time.Second

// Command is `host-clear`. It ends the Windows programs that the host's last wineserver left behind when it was
// killed, and has HCS detach the disks of their containers.
func Command() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "host-clear", Short: "End the Windows programs of an emulated host whose wineserver has ended",
		Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("--host-dir is needed")
			}
			// Host.Prefix of emulator/host would bring containerd's client
			prefix := wine.Prefix{Dir: filepath.Join(dir, "prefix")}
			if err := errors.Join(confine.End(dir, limit), prefix.EndAll(limit)); err != nil {
				return err
			}
			if err := confine.Forget(dir); err != nil {
				return err
			}
			if err := hcsd.Reboot(c.Context(), dir); err != nil {
				return err
			}
			return wine.PrefixMount("", dir).OwnChanges()
		},
	}

	c.Flags().StringVar(&dir, "host-dir", "", "folder of the host (required)")
	return c
}
