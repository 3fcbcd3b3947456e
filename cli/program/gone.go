package program

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"porthole.dev/porthole/internal/similar"
)

// farthest is how many letters of a flag may be wrong to be taken for another one.
const farthest = 3

// ExplainUnknown adds to an error about an unknown flag what replaced that flag, or which flag of fs may be meant.
// gone has what replaced flags of earlier versions, by name; a name that ends in * stands for all that begin with it.
func ExplainUnknown(fs *pflag.FlagSet, gone map[string]string, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}

	name := strings.ReplaceAll(unknown.GetSpecifiedName(), "_", "-")
	for known, instead := range gone {
		prefix, isPrefix := strings.CutSuffix(known, "*")
		if name == known || isPrefix && strings.HasPrefix(name, prefix) {
			return fmt.Errorf("--%s does not exist any more: %s", name, instead)
		}
	}

	best, distance := "", farthest+1
	fs.VisitAll(func(f *pflag.Flag) {
		if d := similar.Edits(name, f.Name); d < distance {
			best, distance = f.Name, d
		}
	})
	if best != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, best)
	}
	return err
}

// ExplainFlags makes a command explain unknown flags. What a command above it adds to such errors stays.
func ExplainFlags(c *cobra.Command, gone map[string]string) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		err = ExplainUnknown(c.Flags(), gone, err)
		if parent := c.Parent(); parent != nil {
			return parent.FlagErrorFunc()(c, err)
		}
		return err
	})
}
