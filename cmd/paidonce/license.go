package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"paidonce/licenses"
)

func newLicense(e *surroundings) *cobra.Command {
	cmd := &cobra.Command{Use: "license", Short: "License keys: make a signing key, print its public half, verify a license", Args: cobra.NoArgs, RunE: showHelp}
	var public string
	verify := &cobra.Command{
		Use:   "verify KEY",
		Short: "Verify a license key offline, and print what it says",
		Long: `verify checks a license key against LICENSE_SIGNING_KEYS, or against one hex public key given
with --public-key, as a program that only has the public half would. It asks no server, so it
does not know whether the license was revoked. Exit status 1: the key is not genuine.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			claims, err := verifyLicense(e, public, args[0])
			if err != nil {
				return err
			}
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent("", "  ")
			return encoder.Encode(claims)
		},
	}
	verify.Flags().StringVar(&public, "public-key", "", "hex public key to verify with, instead of LICENSE_SIGNING_KEYS")
	cmd.AddCommand(verify, newLicensePublic(e), &cobra.Command{
		Use:   "keygen",
		Short: "Make a signing key and print it as a line for the environment",
		Long: `keygen prints LICENSE_SIGNING_KEYS=<kid>:<base64 seed>. The seed is the secret that all licenses
hang on: keep it where the other secrets are. To rotate, put the new key first and keep the old
one behind it, separated by a comma: the first signs, all verify.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := licenses.Generate(rand.Reader)
			if err != nil {
				return fmt.Errorf("making a key: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), key.EnvLine())
			return err
		},
	})
	return cmd
}

// newLicensePublic prints what a program needs to verify licenses offline.
func newLicensePublic(e *surroundings) *cobra.Command {
	return &cobra.Command{
		Use:   "public",
		Short: "Print the public keys of LICENSE_SIGNING_KEYS",
		Long: `public prints a line per key, "<kid> <hex public key>", the signing one first. They are no secret:
put them into the programs that verify licenses offline.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(e.getenv, needs{workers: true})
			if err != nil {
				return err
			}
			for _, key := range cfg.keyring.PublicKeys() {
				cmd.Printf("%s %s\n", key.ID, key.Hex())
			}
			return nil
		},
	}
}

func verifyLicense(e *surroundings, public, key string) (licenses.Claims, error) {
	if public != "" {
		pub, err := licenses.ParsePublicKey(public)
		if err != nil {
			return licenses.Claims{}, fmt.Errorf("--public-key: %w", err)
		}
		return licenses.VerifyWith(pub, key)
	}
	cfg, err := loadConfig(e.getenv, needs{})
	if err != nil {
		return licenses.Claims{}, err
	}
	if !cfg.keyring.Configured() {
		return licenses.Claims{}, fmt.Errorf("LICENSE_SIGNING_KEYS is not set, and no --public-key was given: %w", licenses.ErrNoSigningKey)
	}
	return cfg.keyring.Verify(key)
}
