// Package problem writes error answers in the one form that every endpoint uses:
// application/problem+json (RFC 9457) with a stable code.
//
// It owns the shape of an error on the wire. It promises that a client can switch on the
// code and show the detail. It will not carry an internal error's text: what went wrong
// inside belongs to the log.
package problem

import (
	"encoding/json"
	"net/http"

	"github.com/gin-gonic/gin"
)

// Problem is one error answer.
type Problem struct {
	Status int    // the HTTP status
	Code   string // stable, for programs: BAD_SIGNATURE
	Detail string // for people
	Field  string // the input that is wrong, as the client named it: "items[0].sku"; "" if none
}

// body is the wire form. Without a "type" it means about:blank, whose title is the
// status' own name (RFC 9457, section 4.2.1).
type body struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
	Field  string `json:"field,omitempty"`
}

// Write answers the request with p and ends its handler chain.
func Write(c *gin.Context, p Problem) {
	encoded, err := json.Marshal(body{
		Title: http.StatusText(p.Status), Status: p.Status, Code: p.Code, Detail: p.Detail, Field: p.Field,
	})
	if err != nil {
		panic("bug: a struct of strings always encodes: " + err.Error())
	}
	c.Abort()
	c.Data(p.Status, "application/problem+json", encoded)
}
