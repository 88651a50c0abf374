package cli

import (
	"context"
	"io"
	"os"
	"unicode/utf8"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/reach"
)

// call calls the daemon, starting it if none runs, and shows progress the way the user asked for.
// If ctx ends, it closes the connection, and the daemon undoes what was half done.
func call[Req, Resp any](ctx context.Context, a *app, e api.Endpoint[Req, Resp], req Req) (Resp, error) {
	client, err := a.daemon(ctx)
	if err != nil {
		var zero Resp
		return zero, err
	}
	defer client.Close()
	p := a.newProgress()
	resp, err := api.Call(ctx, client, e, req, p.event)
	p.close()
	if api.IsUnreachable(err) {
		err = agentbox.Errorf(agentbox.Unavailable, "the daemon ended before it answered: %w", err).
			WithHint("run the command again: the daemon undoes incomplete operations")
	}
	return resp, err
}

// callAcrossRestarts makes a call that waits for a task, without progress. If the daemon is replaced
// meanwhile, the next one takes over the task, so the call is repeated there.
func callAcrossRestarts[Resp any](ctx context.Context, a *app, e api.Endpoint[api.TaskRef, Resp], task agentbox.TaskID) (Resp, error) {
	for {
		client, err := a.daemon(ctx)
		var resp Resp
		if err == nil {
			resp, err = api.Call(ctx, client, e, api.TaskRef{Task: task.String()}, nil)
			client.Close()
		}
		if err == nil || ctx.Err() != nil || agentbox.CodeOf(err) != agentbox.Unavailable {
			return resp, err
		}
		if err := sleep(ctx, redialAfter); err != nil {
			return resp, err
		}
	}
}

// download makes a call that answers with bytes, such as a log, and writes them to w.
func download[Req any](ctx context.Context, a *app, s api.Download[Req], req Req, w io.Writer) error {
	client, err := a.daemon(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return api.Read(ctx, client, s, req, w)
}

// callAndReport makes a call and reports the facts of its answer: all that most verbs do.
func callAndReport[Req, Resp any](ctx context.Context, a *app, e api.Endpoint[Req, Resp], req Req, of func(Resp) facts) error {
	resp, err := call(ctx, a, e, req)
	if err != nil {
		return err
	}
	return a.report(of(resp))
}

// ref returns the box that a verb refers to: the first argument, or the box of this directory's
// branch. Only the daemon, which knows the boxes, can decide which. The directory is always sent,
// because commands start in the corresponding subdirectory of the box. If it no longer exists, or its
// name is not UTF-8, it is "", which the daemon refuses where it needs it.
func (a *app) ref(arg string) api.BoxRef {
	if a.host != "" {
		return a.refThere(arg)
	}
	dir, err := os.Getwd()
	if err != nil || !utf8.ValidString(dir) {
		dir = ""
	}
	return api.BoxRef{Box: arg, Directory: dir}
}

// environ is our environment for the daemon, which would else have that of the command that started
// it, without what is not UTF-8 and so cannot be sent. Another machine gets no more than a choice of
// ours, since variables may be the values of secrets.
func (a *app) environ() []string {
	if kind := os.Getenv(isolationEnv); a.host != "" && kind != "" {
		return []string{isolationEnv + "=" + kind}
	}
	if a.host != "" {
		return []string{}
	}
	return reach.Variables()
}

// isolationEnv decides what kind auto is.
const isolationEnv = "AGENTBOX_ISOLATION"

func currentDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", agentbox.Errorf(agentbox.Invalid, "the current directory is gone: %w", err).WithHint("cd somewhere else")
	}
	return dir, nil
}
