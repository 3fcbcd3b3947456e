//go:build !linux

package check

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/pflag"
)

func hostFlags(*pflag.FlagSet, *options) {}

func onHost(context.Context, options, io.Writer, io.Writer) error {
	return errors.New("--host: only Linux has emulated hosts")
}
