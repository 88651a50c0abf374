package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
)

// server stands in for `agentbox serve`: its one box has one file.
func server() *httptest.Server {
	mux := http.NewServeMux()
	files := map[string][]byte{}
	api.Handle(mux, api.Up, func(_ context.Context, req api.UpRequest, _ agentbox.Progress) (api.UpResponse, error) {
		return api.UpResponse{Box: agentbox.Box{Name: "app-main", Directory: req.Directory}}, nil
	})
	api.Handle(mux, api.RunInBox, func(_ context.Context, req api.RunRequest, _ agentbox.Progress) (api.RunResult, error) {
		return api.RunResult{Status: 2, Stderr: "no rule to make " + req.Script}, nil
	})
	api.Handle(mux, api.WriteFile, func(_ context.Context, req api.FileWrite, _ agentbox.Progress) (none api.None, err error) {
		files[req.Path] = req.Content
		return none, nil
	})
	api.Handle(mux, api.ReadFile, func(_ context.Context, req api.FileRead, _ agentbox.Progress) (api.FilePart, error) {
		b, ok := files[req.Path]
		if !ok {
			return api.FilePart{}, agentbox.Errorf(agentbox.NotFound, "there is no %s", req.Path)
		}
		part := b[req.Offset:min(req.Offset+4, int64(len(b)))]
		return api.FilePart{Content: part, Size: int64(len(b))}, nil
	})
	return httptest.NewServer(mux)
}

func Example() {
	s := server()
	defer s.Close()
	ctx, c := context.Background(), client.New(s.URL, "agentbox_...")
	defer c.Close()

	box, err := c.Up(ctx, api.UpRequest{Directory: "/home/me/app"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := c.Shell(ctx, box.Name, "make test")
	fmt.Println(result.Status, result.Stderr, err)
	// Output: 2 no rule to make make test <nil>
}

func ExampleClient_ReadFile() {
	s := server()
	defer s.Close()
	ctx, c := context.Background(), client.New(s.URL, "agentbox_...")
	defer c.Close()

	if err := c.WriteFile(ctx, "app-main", "notes.txt", []byte("written in parts")); err != nil {
		fmt.Println(err)
		return
	}
	b, err := c.ReadFile(ctx, "app-main", "notes.txt", 1<<20)
	fmt.Printf("%s %v\n", b, err)
	_, err = c.ReadFile(ctx, "app-main", "nothing", 1<<20)
	fmt.Println(agentbox.CodeOf(err), err)
	// Output:
	// written in parts <nil>
	// not_found there is no nothing
}
