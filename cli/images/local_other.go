//go:build !linux

package images

import (
	"errors"

	"github.com/spf13/pflag"
)

var errLocal = errors.New("--node: only Linux has local clusters")

func addLocalFlag(*pflag.FlagSet, *string) {}

func findLocal(string) (localCluster, error) { return localCluster{}, errLocal }

func onNode(importFlags, string) error { return errLocal }
