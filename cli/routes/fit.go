package routes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"porthole.dev/porthole/node/routes"
)

// fitLimit bounds the reading of a cluster: about 20 requests.
const fitLimit = 30 * time.Second

// fit is --from-cluster. It succeeds if no mode fits as well: that is an answer.
func (f flags) fit(ctx context.Context, out io.Writer) error {
	if f.kubeconfig == "" {
		return errors.New("--kubeconfig is required: the file with the API server's address and the credentials of a user who may read the cluster")
	}
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("-o %s: text and json are known", f.output)
	}
	ctx, cancel := context.WithTimeout(ctx, fitLimit)
	defer cancel()
	advice, err := routes.Fit(ctx, f.kubeconfig)
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
