"""The webhooks of the API server: conversion between versions, and admission of jobs."""
