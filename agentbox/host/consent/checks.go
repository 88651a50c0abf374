package consent

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/project"
)

// Checks are the checks of a configuration, with the digests of their modules as they are now. keep,
// if not nil, gets each module. A module that cannot be read makes its own check unusable.
func Checks(cfg *config.Config, keep func(wasm []byte) error) ([]agentbox.Check, error) {
	var all []agentbox.Check
	for _, c := range cfg.Checks {
		wasm, err := project.ReadInside(cfg.Root, c.Wasm, agentbox.MaxModule+1)
		if err == nil && len(wasm) > agentbox.MaxModule {
			err = errors.New("it is larger than " + strconv.Itoa(agentbox.MaxModule>>20) + " MiB")
		}
		if err != nil {
			c.Unusable = err.Error()
		} else {
			c.Module, _, _ = agentbox.DigestOf(bytes.NewReader(wasm))
			if keep != nil {
				if err := keep(wasm); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// CheckAsk is what has to be approved for a check: these arguments to these bytes. The name and the
// file are for people.
func CheckAsk(c agentbox.Check) project.Ask {
	words := []string{c.Name, c.Wasm, c.Module.String()}
	for _, arg := range c.Args {
		words = append(words, strconv.Quote(arg))
	}
	return project.Ask{What: askCheck, Which: strings.Join(words, " ")}
}
