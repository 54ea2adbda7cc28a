// Package web is paidonce's own HTTP surface: orders, health, and the router that the
// webhook endpoints are mounted on.
//
// It owns the routes and the shapes of their answers. It promises that every error is a
// problem+json that names the field at fault, that nothing internal and no secret is in an
// answer or a log line, and that no request is redirected, trusted for its headers, or read
// beyond a bound. It decides nothing: orders and fulfillment do.
package web
