package supervisor

import (
	"context"

	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
)

// lender asks the daemon for the values of secrets that another machine lends to a box of its task.
// The daemon asks that machine.
func lender(cfg Config) func(context.Context, string) (string, error) {
	client := api.NewClient(home.Home{Dir: cfg.Home}.Socket())
	return func(ctx context.Context, name string) (string, error) {
		return api.Call(ctx, client, api.BorrowSecret, api.LentSecret{Box: cfg.Box, Name: name}, nil)
	}
}
