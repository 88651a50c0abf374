package idle

import (
	"context"
	"log/slog"
)

// Watcher follows what logind says. Run is called once; the fields are required.
type Watcher struct {
	// Wanted tells whether anybody would listen.
	Wanted func() bool
	// Changed is called when somebody may have come or gone. It must not block.
	Changed func()
	// Sleep is called before this machine sleeps, which waits until it returns, or until ctx ends: by
	// default five seconds (InhibitDelayMaxSec in logind.conf(5)). Woke is called after that.
	Sleep func(ctx context.Context)
	Woke  func()
	Log   *slog.Logger
}
