//go:build !linux

package check

import (
	"errors"

	"github.com/spf13/pflag"
)

func hostFlags(*pflag.FlagSet, *options) {}

func onHost(options) error { return errors.New("--host: only Linux has emulated hosts") }
