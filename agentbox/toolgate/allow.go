package toolgate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agentbox/agentbox/api"
)

// offers tells whether a server's registration lets boxes see a tool.
func offers(s api.ToolServer, tool string) bool {
	return len(s.Tools) == 0 || slices.ContainsFunc(s.Tools, func(glob string) bool { return matches(glob, tool) })
}

// allow decides about a call, and returns the arguments as they are sent: encoded anew, so that the
// server reads no other than were decided about. The error says which rule denies it.
func allow(s api.ToolServer, tool string, raw json.RawMessage) (map[string]any, error) {
	if !offers(s, tool) {
		return nil, fmt.Errorf("the tool %s of %s is not offered to boxes", tool, s.Name)
	}
	args := map[string]any{}
	if len(bytes.TrimSpace(raw)) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber() // a large number stays as it was
		if err := d.Decode(&args); err != nil {
			return nil, fmt.Errorf("the arguments are not an object: %w", err)
		}
	}
	for _, rule := range s.Args {
		of, name, glob, _ := splitArg(rule)
		if !matches(of, tool) {
			continue
		}
		value, ok := args[name]
		if !ok || !matchesValue(glob, value) {
			return nil, fmt.Errorf("the argument %s of %s has to be as %s", name, tool, glob)
		}
	}
	return args, nil
}

// splitArg splits TOOL.ARGUMENT=GLOB, of which TOOL is a glob, too.
func splitArg(rule string) (tool, name, glob string, ok bool) {
	left, glob, ok := strings.Cut(rule, "=")
	i := strings.LastIndexByte(left, '.')
	if !ok || i <= 0 || i == len(left)-1 || glob == "" {
		return "", "", "", false
	}
	return left[:i], left[i+1:], glob, true
}

// matchesValue compares a text as it is and any other value as JSON. A wildcard covers no path that
// leads upwards again, since servers would follow it.
func matchesValue(glob string, value any) bool {
	text, ok := value.(string)
	if !ok {
		b, err := json.Marshal(value)
		if err != nil {
			return false
		}
		text = string(b)
	}
	if strings.ContainsAny(glob, "*?") && slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }), "..") {
		return false
	}
	return matches(glob, text)
}

// matches tells whether a glob covers the whole of a text: * any characters, ? one.
func matches(glob, text string) bool {
	quoted := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(glob))
	re, err := regexp.Compile(`(?s)^(?:` + quoted + `)$`)
	return err == nil && re.MatchString(text)
}
