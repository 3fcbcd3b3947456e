// Package logging sets klog up, the same way for every program.
package logging

import (
	"flag"
	"fmt"
	"strconv"

	"k8s.io/klog/v2"
)

// Set gives klog its verbosity: 0 logs changes of state only. vmodule sets another one for single files, in klog's form
// "pattern=N,…"; it may be empty. Lines go to standard error, or to the file of ToFile. Call it before anything logs.
func Set(verbosity int, vmodule string) error {
	flags := klogFlags()
	if err := flags.Set("v", strconv.Itoa(verbosity)); err != nil {
		return fmt.Errorf("setting the verbosity of the log: %w", err)
	}
	if err := flags.Set("vmodule", vmodule); err != nil {
		return fmt.Errorf("setting the verbosity of the log by file: %w", err)
	}
	return nil
}

// klogFlags are klog's own settings, which it has as flags only.
func klogFlags() *flag.FlagSet {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	return flags
}
