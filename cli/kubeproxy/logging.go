package kubeproxy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/logging"
)

// setUpLogging sets klog up and returns a context that carries its logger. The log goes to the log file, or to
// standard error if there is none.
func setUpLogging(ctx context.Context, s *settings) (context.Context, error) {
	l := &s.Config.Logging
	var modules []string
	for _, m := range l.VModule {
		modules = append(modules, fmt.Sprintf("%s=%d", m.FilePattern, m.Verbosity))
	}
	if err := logging.Set(int(l.Verbosity), strings.Join(modules, ",")); err != nil {
		return ctx, err
	}
	if l.Format == "json" {
		klog.SetSlogLogger(slog.New(jsonLog(logging.Output(), int(l.Verbosity))))
	}
	return klog.NewContext(ctx, klog.Background().WithName("kube-proxy")), nil
}

// jsonLog writes lines with upstream's keys: ts in milliseconds since 1970, v for all but errors, msg.
func jsonLog(w io.Writer, verbosity int) slog.Handler {
	return slog.NewJSONHandler(w,
		&slog.HandlerOptions{Level: slog.Level(-verbosity), ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.TimeKey:
				return slog.Float64("ts", float64(a.Value.Time().UnixNano())/float64(time.Millisecond))
			case slog.LevelKey:
				level, _ := a.Value.Any().(slog.Level)
				if level > slog.LevelInfo {
					return slog.Attr{} // an error; it has its own key
				}
				return slog.Int("v", int(-level))
			}
			return a
		}})
}
