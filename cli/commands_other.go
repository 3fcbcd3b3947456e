//go:build !linux

package cli

import "github.com/spf13/cobra"

func localCommands() []*cobra.Command { return nil }
