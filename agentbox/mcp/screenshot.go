package mcp

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
)

type screenshotIn struct {
	boxIn
	URL    string `json:"url" jsonschema:"as the box reaches it, such as http://localhost:3000/ or file:///workspace/index.html"`
	Width  int    `json:"width,omitempty" jsonschema:"of the window in pixels; default 1280"`
	Height int    `json:"height,omitempty" jsonschema:"default 800"`
}

const (
	minSide, maxSide  = 100, 4000
	screenshotSeconds = 60
	maxPicture        = 4 << 20
	noBrowser         = 127 // the status of screenshot.sh without one
)

// screenshotScript prints the path of the picture of a page that a browser in the box shows.
//
//go:embed screenshot.sh
var screenshotScript string

// png begins a picture. What a box says is one goes to a model's eyes, and to nothing else here.
var png = []byte("\x89PNG\r\n\x1a\n")

func (s Server) screenshot(ctx context.Context, in screenshotIn, progress agentbox.Progress) ([]mcp.Content, error) {
	width, height := cmp.Or(in.Width, 1280), cmp.Or(in.Height, 800)
	if in.URL == "" || min(width, height) < minSide || max(width, height) > maxSide {
		return nil, agentbox.Errorf(agentbox.Invalid, "a screenshot needs a URL, and a window of %d to %d pixels each way", minSide, maxSide)
	}
	env := map[string]string{"SHOT_URL": in.URL, "SHOT_SIZE": fmt.Sprintf("%d,%d", width, height)}
	r, err := client.Call(ctx, s.Client, api.RunInBox, api.RunRequest{BoxRef: api.BoxRef{Box: in.Box}, Script: screenshotScript, Env: env, Seconds: screenshotSeconds, MaxOutput: 4 << 10}, progress)
	switch {
	case err != nil:
		return nil, err
	case r.Status == noBrowser:
		return nil, agentbox.Errorf(agentbox.Missing, "there is no browser in box %s", in.Box).
			WithHint("sudo apt-get install -y chromium in the box, or packages: [chromium] in agentbox.yaml, which a person approves")
	case r.TimedOut || r.Status != 0:
		return nil, agentbox.Errorf(agentbox.Unavailable, "the browser in box %s made no picture of %s: %s", in.Box, agentbox.Printable(in.URL), agentbox.Clip(agentbox.Printable(r.Stderr)))
	}
	picture, err := s.Client.ReadFile(ctx, in.Box, r.Stdout, maxPicture)
	if err == nil && !bytes.HasPrefix(picture, png) {
		err = agentbox.Errorf(agentbox.Corrupt, "what the browser in box %s made is no picture", in.Box)
	}
	if err != nil {
		return nil, err
	}
	return []mcp.Content{&mcp.ImageContent{Data: picture, MIMEType: "image/png"}}, nil
}
