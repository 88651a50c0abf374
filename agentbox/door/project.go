package door

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// confine makes sure that a request of a token of one project is about that project. It replaces what
// the request names by its whole ID, so that the daemon cannot find something else. req is a pointer.
func (d *Door) confine(ctx context.Context, grant api.Token, call api.PublicCall, req any) error {
	if err := checkRights(grant, req); err != nil || grant.Project == "" {
		return err
	}
	v := reflect.ValueOf(req).Elem()
	ask := api.SubjectRequest{OrTask: call.Path == api.Diff.Path}
	ref, task := fieldOf[api.BoxRef](v), fieldOf[api.TaskRef](v)
	switch call.Concern {
	case api.AboutAnything, api.AboutBoxes, api.AboutTasks:
		return nil
	case api.AboutBox:
		ask.BoxRef = *ref
	case api.AboutTask:
		if file, ok := req.(*api.ArtifactRef); ok {
			task = &api.TaskRef{Task: file.Task.String()}
		}
		ask.Task = task.Task
	case api.AboutCheckout:
		dir, err := checkoutOf(req)
		if err != nil {
			return err
		}
		ask.Directory, ask.Checkout = dir, true
	default:
		return agentbox.Errorf(agentbox.Forbidden, "the token %s is for one project, and %s is about more", grant.ID, call.Path).WithHint("agentbox token create without --project makes one")
	}
	about, err := daemon(ctx, d, api.FindSubject, ask, nil)
	if err == nil && about.Project != grant.Project {
		err = agentbox.Errorf(agentbox.Forbidden, "the token %s is for another project", grant.ID).WithHint("agentbox token ls says which")
	}
	if err != nil {
		return err
	}
	switch {
	case call.Concern == api.AboutBox && about.Task != "":
		ref.Box = about.Task
	case call.Concern == api.AboutBox:
		ref.Box = about.Box
	case call.Concern == api.AboutTask:
		task.Task = about.Task
	}
	if list, ok := req.(*api.JobList); ok && list.All {
		return agentbox.Errorf(agentbox.Forbidden, "the token %s is for one project, and not for all jobs", grant.ID).WithHint("name a box")
	}
	return nil
}

// checkRights refuses what changes what boxes may do to tokens that may not: to lend a secret to another
// machine. What a machine of the team asks for in its owner's name, nobody else may.
func checkRights(grant api.Token, req any) error {
	up, _ := req.(*api.UpRequest)
	task, _ := req.(*api.TaskSubmission)
	switch {
	case up != nil && (up.Foreign || up.Loan != nil), task != nil && task.Spec.For != nil:
		return agentbox.Errorf(agentbox.Forbidden, "only machines of the team ask for boxes of their own tasks")
	case task != nil && len(task.Spec.Secrets) > 0 && grant.Scope != api.ScopeAdmin:
		return agentbox.Errorf(agentbox.Forbidden, "the token %s does not lend secrets to other machines", grant.ID).WithHint("agentbox token create --scope admin makes one that does")
	}
	return nil
}

// checkoutOf returns the directory that a request makes a box of. A source may be of any project.
func checkoutOf(req any) (string, error) {
	var dir string
	var source *agentbox.SourceRef
	switch req := req.(type) {
	case *api.UpRequest:
		dir, source = req.Directory, req.Source
	case *api.TaskSubmission:
		dir, source = req.Spec.Directory, req.Spec.Source
	}
	if source != nil {
		return "", agentbox.Errorf(agentbox.Forbidden, "a token of one project cannot name a source").WithHint("name the directory of a checkout")
	}
	return dir, nil
}

// pageOf is the part of a list that is asked for: at most limit elements, behind ID after.
type pageOf struct {
	limit int
	after string
}

// takePage takes limit and after out of the query of a list.
func takePage(query url.Values, call api.PublicCall) (p pageOf, err error) {
	if call.Response == nil || call.Response.Kind() != reflect.Slice {
		return p, nil
	}
	p.after = query.Get("after")
	query.Del("after")
	p.limit, err = takeNumber(query, "limit")
	return p, err
}

// nextHeader has the after of the next page. It is absent at the last one.
const nextHeader = "Agentbox-Next"

// cut leaves those elements of a list that the token is for and the page has.
func (p pageOf) cut(w http.ResponseWriter, call api.PublicCall, grant api.Token, answer json.RawMessage) (json.RawMessage, error) {
	listed := call.Concern == api.AboutBoxes || call.Concern == api.AboutTasks
	if p == (pageOf{}) && (!listed || grant.Project == "") {
		return answer, nil
	}
	var all []json.RawMessage
	if err := json.Unmarshal(answer, &all); err != nil {
		return nil, err
	}
	kept, seen := []json.RawMessage{}, p.after == ""
	var last string
	for _, one := range all {
		var of struct {
			ID      string `json:"id"`
			Digest  string `json:"digest"`
			Project string `json:"project"`
		}
		if err := json.Unmarshal(one, &of); err != nil {
			return nil, err
		}
		if listed && grant.Project != "" && of.Project != grant.Project {
			continue
		}
		id := of.ID + of.Digest
		switch {
		case !seen:
			seen = id == p.after
			continue
		case p.limit > 0 && len(kept) == p.limit:
			w.Header().Set(nextHeader, last)
			return json.Marshal(kept)
		}
		kept, last = append(kept, one), id
	}
	if !seen {
		return nil, agentbox.Errorf(agentbox.NotFound, "the list has no %q", p.after).WithHint("begin again without after")
	}
	return json.Marshal(kept)
}
