package supervisor

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox/home"
)

// A machine may go on only if what was saved of it cannot be restored any more.
func TestSaveIsDroppedWholeOrKept(t *testing.T) {
	for name, renames := range map[string]bool{"dropped": true, "cannot be renamed": false} {
		t.Run(name, func(t *testing.T) {
			s := &Supervisor{names: home.Box{Dir: t.TempDir()}, log: slog.New(slog.DiscardHandler)}
			if err := os.MkdirAll(filepath.Join(s.names.Saved(), "memory"), 0o700); err != nil {
				t.Fatal(err)
			}
			if !renames { // something that could not be removed has the name
				if err := os.Mkdir(s.names.Resuming(), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if dropped := s.dropSave(); dropped != renames {
				t.Errorf("dropped: %v", dropped)
			}
			_, err := os.Stat(filepath.Join(s.names.Saved(), "memory"))
			if kept := err == nil; kept == renames {
				t.Errorf("kept: %v", kept)
			}
		})
	}
}
