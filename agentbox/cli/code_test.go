package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// Which editor is started, and with which words. A terminal's editor in VISUAL is passed over.
func TestEditorOn(t *testing.T) {
	find := func(program string) (string, error) {
		if slices.Contains([]string{"zed", "cursor", "emacs", "vim", "/opt/x/code"}, program) {
			return "/bin/" + program, nil
		}
		return "", exec.ErrNotFound
	}
	for _, c := range []struct{ asked, visual, want string }{
		{"", "", "/bin/cursor --remote ssh-remote+app.agentbox /workspace"},
		{"", "vim", "/bin/cursor --remote ssh-remote+app.agentbox /workspace"},
		{"", "emacs", "/bin/emacs /ssh:app.agentbox:/workspace"},
		{"zed", "emacs", "/bin/zed ssh://app.agentbox/workspace"},
		{"/opt/x/code", "", "/bin//opt/x/code --remote ssh-remote+app.agentbox /workspace"},
		{"vim", "", ""},
		{"code", "", ""},
	} {
		argv, err := editorOn(c.asked, c.visual, "app.agentbox", "/workspace", find)
		if got := strings.Join(argv, " "); got != c.want || (err == nil) != (c.want != "") || err != nil && agentbox.CodeOf(err) != agentbox.Missing {
			t.Errorf("%q, VISUAL=%q: %q, %v, want %q", c.asked, c.visual, got, err, c.want)
		}
	}
}
