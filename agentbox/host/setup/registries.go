package setup

import (
	"context"
	"errors"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain/resolve"
	"agentbox/policy/registries"
	"agentbox/vmm/image"
)

// Registries knows where this machine gets packages from.
type Registries interface {
	// OpenQuestions are the open questions about some ecosystems.
	OpenQuestions(ctx context.Context, ecosystems []string) []registries.Question
	// RecordAnswers stores answers by question. They come from a clean box, which a repository could
	// not influence.
	RecordAnswers(answers map[string]string) error
	// SkipQuestions skips questions that could not be asked.
	SkipQuestions(questions []registries.Question)
}

// askRegistries finds out where the tools that a repository asks for get packages from, if neither
// files nor tools of this machine say so. It asks the distribution's tools, in a clean box of an
// image without anything of the repository. Failures are reported and do not keep the box from
// being made. hasTools tells whether base has the tools from registries; only those are asked then.
// One box at a time asks, so that no question is asked twice.
func (s *Setup) askRegistries(ctx context.Context, req Request, base image.Image, hasTools bool, progress agentbox.Progress) {
	defer s.keys.Lock("registries")()
	questions := slices.DeleteFunc(s.openQuestions(ctx, req), func(q registries.Question) bool { return (q.Package == "") != hasTools })
	if len(questions) == 0 {
		return
	}
	end := progress.Begin("registries", "where "+ecosystems(questions)+" is had from, as this machine does not say")
	b, err := req.Empty(ctx, base, progress)
	if err == nil {
		err = errors.Join(s.askCleanBox(ctx, b.Box, questions, resolve.Installed(base.Versions)), b.Remove())
	}
	if err == nil {
		end(ecosystems(questions))
		return
	}
	if ctx.Err() != nil { // the next box asks
		return
	}
	s.Registries.SkipQuestions(questions)
	progress.Note("cannot find out where " + ecosystems(questions) + " is had from, so boxes reach what agentbox policy allow permits: " + err.Error())
}

// openQuestions are the open questions for a repository that a clean box can answer: none if its
// image has files that the repository chose.
func (s *Setup) openQuestions(ctx context.Context, req Request) []registries.Question {
	if len(req.Config.Include) > 0 {
		return nil
	}
	return s.Registries.OpenQuestions(ctx, req.Config.Toolchain.Ecosystems())
}

func ecosystems(questions []registries.Question) string {
	var names []string
	for _, q := range questions {
		names = append(names, q.Ecosystem)
	}
	return strings.Join(slices.Compact(names), ", ")
}

// askCleanBox installs the tools that a clean box lacks, asks them, and records the answers, which
// are the distribution's.
func (s *Setup) askCleanBox(ctx context.Context, b Box, questions []registries.Question, installed resolve.Candidates) error {
	var missing []string
	for _, q := range questions {
		if q.Package != "" && installed[q.Package] == "" {
			missing = append(missing, q.Package)
		}
	}
	if len(missing) > 0 {
		install := append([]string{"apt-get", "-q", "-y", "--no-install-recommends", "install"}, slices.Compact(missing)...)
		for _, argv := range [][]string{{"apt-get", "-q", "update"}, install} {
			if err := s.asRoot(ctx, b, nil, argv...); err != nil {
				return err
			}
		}
	}
	answers := map[string]string{}
	for _, q := range questions {
		said, err := s.query(ctx, b, maxAnswer, q.Argv)
		if err != nil {
			return err
		}
		answers[q.Key()] = strings.TrimSpace(said.String())
	}
	return s.Registries.RecordAnswers(answers)
}
