package image

import (
	"bytes"
	"path"
	"strings"

	"agentbox/agentbox"
)

// bootstrapLog reads mmdebstrap's output: steps are progress, the last lines explain a failure.
type bootstrapLog struct {
	progress agentbox.Progress
	rest     []byte   // an incomplete line
	lines    []string // the last maxLogLines
}

// maxLogLines is how many lines are kept.
const maxLogLines = 400

// Write implements io.Writer. It never fails. It drops a line that has more than 64 KiB.
func (b *bootstrapLog) Write(p []byte) (int, error) {
	b.rest = append(b.rest, p...)
	for {
		i := bytes.IndexAny(b.rest, "\n\r")
		if i < 0 {
			break
		}
		b.line(strings.TrimSpace(string(b.rest[:i])))
		b.rest = b.rest[i+1:]
	}
	if len(b.rest) > 1<<16 {
		b.rest = nil
	}
	return len(p), nil
}

// line keeps a line, and reports progress if it begins a step.
func (b *bootstrapLog) line(s string) {
	if s == "" {
		return
	}
	b.lines = append(b.lines, s)
	if len(b.lines) > maxLogLines {
		b.lines = b.lines[len(b.lines)-maxLogLines:]
	}
	info, ok := strings.CutPrefix(s, "I: ")
	if !ok {
		return
	}
	for words, what := range bootstrapSteps {
		if strings.HasPrefix(info, words) {
			if strings.Contains(info, "hook") {
				info = "reading the lists of packages"
			}
			b.progress.Update(step, what+" "+strings.TrimSuffix(info, "..."), 0, 0)
		}
	}
}

// bootstrapSteps maps the beginnings of mmdebstrap's lines about long steps to kinds of work.
var bootstrapSteps = map[string]string{
	"running apt-get update": "fetch", "running --setup-hook": "fetch", "downloading packages": "fetch",
	"extracting archives": "install", "installing essential": "install", "installing remaining": "install", "creating tarball": "install",
}

// failed tells whether the program reported an error itself. If both the program and reading its
// archive failed, the program's error counts then.
func (b *bootstrapLog) failed() bool {
	for _, s := range b.lines {
		if strings.HasPrefix(s, "E: ") {
			return true
		}
	}
	return false
}

var (
	// Messages of apt and dpkg, which run in an English locale and have one exit status for all.
	noPackage = agentbox.Pattern(`Unable to locate package (\S+)|Package '?([^' ]+)'? has no installation candidate|Version '[^']*' for '([^']+)' was not found`)
	noRelease = agentbox.Pattern(`does not have a Release file|404 +Not Found`)
	noAnswer  = agentbox.Pattern(`Could not (?:resolve|connect)|Temporary failure|Connection (?:failed|timed out|refused)|Cannot initiate the connection`)
	noKey     = agentbox.Pattern(`NO_PUBKEY (\S+)|is not signed|signatures were invalid`)
	noRoom    = agentbox.Pattern(`No space left on device|You don't have enough free space`)
	noConfig  = agentbox.Pattern(`dpkg: error processing (?:package|archive) (\S+)`)
)

// explain returns an error of one line with the cause of a failure, its code and a hint. err is
// mmdebstrap's exit, dir the directory in which it unpacked. An unknown cause has code Internal and
// the most telling line.
func (b *bootstrapLog) explain(err error, suite, dir string) error {
	all := strings.Join(b.lines, "\n")
	if m := noPackage().FindStringSubmatch(all); m != nil {
		return agentbox.Errorf(agentbox.NotFound, "package %s does not exist in %s", strings.TrimRight(m[1]+m[2]+m[3], "."), suite).
			WithHint("correct packages: in agentbox.yaml; `apt-cache search WORD` finds names")
	}
	switch {
	case noRoom().MatchString(all):
		return agentbox.Errorf(agentbox.NoSpace, "no space left to make the image apt:%s", suite).
			WithHint("it is unpacked in %s, which needs about 3 GB free; TMPDIR takes another place", path.Dir(dir))
	case noAnswer().MatchString(all):
		return agentbox.Errorf(agentbox.Unavailable, "the apt mirror of %s does not answer: %s", suite, b.lastError()).
			WithHint("check the network and `sudo apt-get update`")
	case noKey().MatchString(all):
		return agentbox.Errorf(agentbox.Missing, "the apt sources of %s are not signed by a key this host knows", suite).
			WithHint("install the keyring of that distribution")
	case noRelease().MatchString(all):
		return agentbox.Errorf(agentbox.NotFound, "the suite %s does not exist in this host's apt sources", suite).
			WithHint("image: apt:SUITE takes a release such as bookworm")
	}
	if m := noConfig().FindStringSubmatch(all); m != nil {
		return agentbox.Errorf(agentbox.Invalid, "package %s cannot be installed into apt:%s", m[1], suite)
	}
	return agentbox.Errorf(agentbox.Internal, "mmdebstrap failed to make apt:%s (%w): %s", suite, err, b.lastError())
}

// lastError returns the most telling line: the first error, failed fetch or warning, in this order,
// since later ones are consequences.
func (b *bootstrapLog) lastError() string {
	for _, prefix := range []string{"E: ", "Err:", "W: "} {
		for _, s := range b.lines {
			if rest, ok := strings.CutPrefix(s, prefix); ok && !strings.Contains(s, "failed:") {
				return rest
			}
		}
	}
	if n := len(b.lines); n > 0 {
		return b.lines[n-1]
	}
	return "it said nothing"
}
