package routes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"porthole.dev/porthole/node/routes"
	"porthole.dev/porthole/routes/fit"
)

// Advise reads a cluster that has a network and says which of the modes fits; node/fit has one.
type Advise func(ctx context.Context, kubeconfig string, modes []string) (fit.Advice, error)

// fitLimit bounds the reading of a cluster: about 20 requests.
const fitLimit = 30 * time.Second

// fit is --from-cluster. It succeeds if no mode fits as well: that is an answer.
func (f flags) fit(ctx context.Context, advise Advise, out io.Writer) error {
	if advise == nil {
		return errors.New("--from-cluster: this program does not read clusters; use `porthole routes --from-cluster`")
	}
	if f.kubeconfig == "" {
		return errors.New(
			"--kubeconfig is required: the file with the API server's address and the credentials of a user who may read the cluster")
	}
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("-o %s: text and json are known", f.output)
	}
	ctx, cancel := context.WithTimeout(ctx, fitLimit)
	defer cancel()
	advice, err := advise(ctx, f.kubeconfig, routes.Modes())
	if err != nil {
		return err
	}

	if f.output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(advice)
	}
	return advice.Print(out)
}
