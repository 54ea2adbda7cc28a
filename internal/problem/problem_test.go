package problem_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"paidonce/internal/problem"
)

func TestWrite_WireForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		p    problem.Problem
		want string
	}{
		// Without a type, the title is the status' own name.
		{
			"Full",
			problem.Problem{Status: 422, Code: "INVALID_FIELD", Detail: "items[0].sku: is missing", Field: "items[0].sku"},
			`{"title":"Unprocessable Entity","status":422,"code":"INVALID_FIELD","detail":"items[0].sku: is missing","field":"items[0].sku"}`,
		},
		{
			"No field",
			problem.Problem{Status: 404, Code: "NOT_FOUND", Detail: "There is nothing here."},
			`{"title":"Not Found","status":404,"code":"NOT_FOUND","detail":"There is nothing here."}`,
		},
		{"Code alone", problem.Problem{Status: 503, Code: "X"}, `{"title":"Service Unavailable","status":503,"code":"X"}`},

		// What a client sent and gets back cannot break out of the JSON, nor be taken for HTML.
		{
			"Hostile",
			problem.Problem{Status: 422, Code: "X", Detail: "\"\x00\xff<script>\u2028", Field: "}"},
			"{\"title\":\"Unprocessable Entity\",\"status\":422,\"code\":\"X\",\"detail\":\"\\\"\\u0000\\ufffd\\u003cscript\\u003e\\u2028\",\"field\":\"}\"}",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			recorder := httptest.NewRecorder()
			ctx, _ := gin.CreateTestContext(recorder)
			problem.Write(ctx, c.p)
			if recorder.Code != c.p.Status || recorder.Header().Get("Content-Type") != "application/problem+json" || recorder.Body.String() != c.want {
				t.Errorf("got %d %s\n%s\nwant\n%s", recorder.Code, recorder.Header().Get("Content-Type"), recorder.Body, c.want)
			}
		})
	}
}

// A problem is the request's last word: the handlers behind it do not run.
func TestWrite_EndsTheChain(t *testing.T) {
	t.Parallel()
	router := gin.New()
	router.GET("/",
		func(c *gin.Context) { problem.Write(c, problem.Problem{Status: http.StatusForbidden, Code: "X"}) },
		func(*gin.Context) { t.Error("the next handler ran") },
	)
	recorder := httptest.NewRecorder()
	router.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if recorder.Code != http.StatusForbidden {
		t.Errorf("got %d", recorder.Code)
	}
}
