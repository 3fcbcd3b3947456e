package winbridge

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

// deadline of a whole CNI call; runtimes give up later than that.
const deadline = 90 * time.Second

// Main serves one CNI call from the environment and standard input, and ends the process.
func Main(h host) {
	p := &Plugin{Host: h}
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add: with(func(ctx context.Context, c Call) error {
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
		Del:    with(p.Del),
		Check:  with(p.Check),
		Status: with(func(ctx context.Context, c Call) error { return p.Status(ctx, c.Config) }),
		GC:     with(func(ctx context.Context, c Call) error { return p.GC(ctx, c.Config) }),
	}, version.VersionsStartingFrom("0.1.0"), "win-bridge: endpoints on L2Bridge networks for Windows pods")
}

func with(do func(context.Context, Call) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		config, err := contract.Parse(args.StdinData)
		if err != nil {
			return types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
		}
		for _, w := range config.Warnings {
			fmt.Fprintln(os.Stderr, "win-bridge:", w)
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
