"""What the API server asks us: conversion between versions, and admission of jobs."""
