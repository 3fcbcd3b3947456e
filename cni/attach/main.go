package attach

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/hns"
)

// deadline of a whole CNI call. Runtimes give up later than that.
const deadline = 90 * time.Second

// Main serves one CNI call from the environment and standard input, and ends the process. Name and about are the plugin's, for
// messages.
func Main(name, about string, p Plugin) {
	serve := func(do func(context.Context, Call) error) func(*skel.CmdArgs) error { return serving(name, do) }
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add: serve(func(ctx context.Context, c Call) error {
			result, err := p.Add(ctx, c)
			if err != nil {
				return err
			}
			v := c.Config.CNIVersion
			if v == "" {
				v = "0.2.0" // some configurations in the field name none
			}
			return types.PrintResult(result, v)
		}),
		Del:    serve(p.Del),
		Check:  serve(p.Check),
		Status: serve(func(ctx context.Context, c Call) error { return p.Status(ctx, c.Config) }),
		GC:     serve(func(ctx context.Context, c Call) error { return p.GC(ctx, c.Config) }),
	}, version.VersionsStartingFrom("0.1.0"), name+": "+about)
}

// serving reads the configuration of a call and bounds its time.
func serving(name string, do func(context.Context, Call) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		config, err := contract.Parse(args.StdinData)
		if err != nil {
			return types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
		}
		for _, w := range config.Warnings {
			fmt.Fprintln(os.Stderr, name+":", w)
		}

		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		err = do(ctx, Call{Container: args.ContainerID, Namespace: args.Netns, Interface: args.IfName, Config: config})
		if err != nil && hns.ClassOf(err) == hns.Unknown && os.Getenv("CNI_COMMAND") == "STATUS" {
			return types.NewError(types.ErrPluginNotAvailable, err.Error(), "")
		}
		return err
	}
}
